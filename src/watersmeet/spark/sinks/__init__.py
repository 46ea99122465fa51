"""Streaming queries that write answers into declared sinks; `formats.py` lists the sink formats."""

from watersmeet.spark.sinks.answer_ids import ANSWER_ID, with_answer_ids
from watersmeet.spark.sinks.write_stream import CONSOLE, spark_interval, write_stream

__all__ = ["ANSWER_ID", "CONSOLE", "spark_interval", "with_answer_ids", "write_stream"]
