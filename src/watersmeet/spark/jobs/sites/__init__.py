"""One site's part of a plan across sites as a query that runs, and its checkpoint."""
