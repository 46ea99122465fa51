"""Serving a ring: one Spark query for all of its queries, which come and go while it runs."""
