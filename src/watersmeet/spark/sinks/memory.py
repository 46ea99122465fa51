"""Answers in a table of the session, for notebooks: `spark.table("name of the sink")`.

Spark's own memory sink cannot resume from a checkpoint, and a flush needs a second run. This one keeps
batches by their number: a batch that is done again replaces itself. The table lasts as long as the process;
after a restart it holds the answers from then on. It holds the latest million answers, or as many as the
option `rows` says: the oldest batches go first.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.spark.sinks.target import Batch, Target

MOST_ROWS = 1_000_000

Key = tuple[str, int]  # who writes, and the number of the batch
AnyKey = TypeVar("AnyKey", bound=Hashable)

_TABLES: dict[tuple[str, str], MemoryTable] = {}


@dataclass
class MemoryTable:
    """The answers so far, by the number of their batch."""

    spark: SparkSession
    name: str
    most_rows: int = MOST_ROWS
    batches: dict[Key, pa.Table] = field(default_factory=dict)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def put(self, answers: DataFrame, writer: str, batch: int) -> None:
        """Takes a batch, in place of its first try if there was one."""
        found = answers.toArrow()
        with self._one_at_a_time:
            self.batches.pop((writer, batch), None)
            if found.num_rows or not self.batches:
                self.batches[writer, batch] = found
            self.batches = latest(self.batches, self.most_rows)
            # Not in the batch's own session, which is a copy that nobody else sees.
            whole = pa.concat_tables(self.batches.values(), promote_options="default")
            whole = whole.select(answers.columns)  # queries may have them in different orders
            self.spark.createDataFrame(whole, answers.schema).createOrReplaceTempView(f"`{self.name}`")


def latest(batches: Mapping[AnyKey, pa.Table], most_rows: int) -> dict[AnyKey, pa.Table]:
    """The batches that came last and have so many rows or fewer together, but the newest in any case.

    >>> tables = {number: pa.table({"x": [1, 2, 3]}) for number in (4, 5, 7)}
    >>> list(latest(tables, 9)), list(latest(tables, 8)), list(latest(tables, 1))
    ([4, 5, 7], [5, 7], [7])
    """
    kept: list[AnyKey] = []
    rows = 0
    for number in reversed([*batches]):
        rows += batches[number].num_rows
        if kept and rows > most_rows:
            break
        kept.append(number)
    return {number: batches[number] for number in reversed(kept)}


@dataclass(frozen=True)
class MemorySink:
    """The table of a sink's name; any answers can be held."""

    table: MemoryTable

    def check(self, columns: list[str]) -> None:
        """Refuses nothing."""

    def write(self, batch: Batch) -> None:
        rows = batch.answers(batch.queries)
        if rows is not None:
            self.table.put(rows, batch.origin.writer, batch.number)


def open_memory(target: Target) -> MemorySink:
    """The table of a sink under a checkpoint: a query that resumes in this session goes on filling it."""
    text = target.connector.option("rows") or str(MOST_ROWS)
    if not text.isdecimal() or not int(text):
        raise ConfigurationError(f"{target.what}: rows = '{text}' is not a number of answers to hold")
    key = (target.sink.name, target.checkpoint)
    table = _TABLES.get(key)
    if table is None or table.spark is not target.spark:
        table = _TABLES[key] = MemoryTable(target.spark, target.sink.name)
    table.most_rows = int(text)
    return MemorySink(table)
