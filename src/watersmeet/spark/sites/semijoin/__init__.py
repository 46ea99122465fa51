"""Semijoin plans at a site on Spark: lanes of halves in stateful buckets, and mail between the sites."""
