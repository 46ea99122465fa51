"""Parquet files read by Arrow in place of Spark: names, schemas, rows, and wide columns that come late."""
