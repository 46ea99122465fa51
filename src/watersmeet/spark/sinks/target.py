"""Where answers go, batch by batch, and what a sink format must be able to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from watersmeet.query import Connector, Sink
from watersmeet.spark.sinks.answer_ids import Origin


@dataclass(frozen=True, kw_only=True)
class Target:
    """A declared sink, the folder that relative paths start from, and who writes to it."""

    spark: SparkSession  # the user's; a batch has a copy of it, whose tables nobody else sees
    sink: Sink
    base: Path
    checkpoint: str
    name: str  # of the query, or of the sink where many queries write together
    part: str = ""  # tells apart the sinks that one streaming query fills
    ready: bool = False  # whether rows already have what the sink puts beside answers, as dead letters do

    @property
    def what(self) -> str:
        """The name that refusals give it."""
        return f"sink {self.sink.name}"

    @property
    def connector(self) -> Connector:
        return self.sink.connector


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A micro-batch for one sink: the queries whose answers go there, and the answers of some of them.

    A batch that is done again has the number and the plan it had, and the same answers of those queries that
    are in both tries.
    """

    number: int
    plan: str  # of which input it is made; one of the same number that was planned anew has another
    origin: Origin
    queries: frozenset[str]
    answers: Callable[[frozenset[str]], DataFrame | None] = field(repr=False)  # None: there are none


class BatchSink(Protocol):
    """A sink that takes one batch after the other."""

    def check(self, columns: list[str]) -> None:
        """Refuses, before anything runs, what cannot be written there."""

    def write(self, batch: Batch) -> None:
        """Asks for the answers of those queries that the sink has not got yet, and writes them."""


class SinkFormat(Protocol):
    """One sink format: `formats.py` lists them all."""

    def __call__(self, target: Target) -> BatchSink:
        """The sink that a declaration names; refuses options that are missing or wrong."""
