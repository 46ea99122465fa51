"""Where a query's rows go, and what a sink format must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.query import Connector, Sink


@dataclass(frozen=True)
class Target:
    """A declared sink, the folder that relative paths start from, and the checkpoint of the query."""

    sink: Sink
    base: Path
    checkpoint: str
    ready: bool = False  # whether rows already have what the sink puts beside answers, as dead letters do

    @property
    def what(self) -> str:
        """The name that refusals give it."""
        return f"sink {self.sink.name}"

    @property
    def connector(self) -> Connector:
        return self.sink.connector


class SinkFormat(Protocol):
    """One sink format: `formats.py` lists them all."""

    def __call__(self, rows: DataFrame, target: Target) -> DataStreamWriter:
        """A writer of the rows with the sink's options; refuses a sink that cannot be written to."""
