"""How long a value of a query can get, and in how many steps it is computed; what has no bound is refused."""
