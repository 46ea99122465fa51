"""Serves a shared dataflow: one Spark query for many queries, which come and go while it runs."""
