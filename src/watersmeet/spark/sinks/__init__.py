"""Streaming queries that write answers into declared sinks; `formats.py` lists the sink formats."""

from watersmeet.spark.sinks.write_stream import CONSOLE, spark_interval, write_stream

__all__ = ["CONSOLE", "spark_interval", "write_stream"]
