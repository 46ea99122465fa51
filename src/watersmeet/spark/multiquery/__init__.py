"""Runs a shared dataflow on Spark: the levels of joins are stages of one streaming query."""
