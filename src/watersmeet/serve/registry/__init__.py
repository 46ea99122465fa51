"""A ring's folder: its queries, what is asked of it, what it replies. Clients need no Spark to use it."""
