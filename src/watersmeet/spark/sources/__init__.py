"""Declared streams as DataFrames with their declared columns; `formats.py` lists the source formats."""

from watersmeet.spark.sources.event_time import event_microseconds, stamp_arrivals
from watersmeet.spark.sources.inferred_columns import InferredColumns
from watersmeet.spark.sources.open_stream import read_batch, read_stream, source_columns
from watersmeet.spark.sources.read_sources import Sources, read_sources

__all__ = [
    "InferredColumns",
    "Sources",
    "event_microseconds",
    "read_batch",
    "read_sources",
    "read_stream",
    "source_columns",
    "stamp_arrivals",
]
