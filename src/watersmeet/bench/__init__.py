"""Benchmarks: our engine, Spark's own cascade and DuckDB on the same data, in one run on one machine."""
