"""Answers in a table of the session, for notebooks: `spark.table("name of the sink")`.

Spark's own memory sink cannot resume from a checkpoint, and a flush needs a second run. This one keeps
batches by their number: a batch that is done again replaces itself. The table lasts as long as the process;
after a restart it holds the answers from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.spark.sinks.target import Target

_TABLES: dict[tuple[str, str], MemoryTable] = {}


@dataclass
class MemoryTable:
    """The answers so far; called by `foreachBatch`."""

    spark: SparkSession
    name: str
    batches: dict[int, pa.Table] = field(default_factory=dict)

    def __call__(self, answers: DataFrame, batch: int) -> None:
        found = answers.toArrow()
        if found.num_rows or not self.batches:
            self.batches[batch] = found
            whole = pa.concat_tables(self.batches.values())
            # Not in the batch's own session, which is a copy that nobody else sees.
            self.spark.createDataFrame(whole, answers.schema).createOrReplaceTempView(f"`{self.name}`")


def write_table(rows: DataFrame, target: Target) -> DataStreamWriter:
    """Answers into the table of the sink's name."""
    return rows.writeStream.foreachBatch(memory_table(rows.sparkSession, target.sink.name, target.checkpoint))


def memory_table(spark: SparkSession, name: str, checkpoint: str) -> MemoryTable:
    """The table of a sink under a checkpoint: a query that resumes in this session goes on filling it."""
    table = _TABLES.get((name, checkpoint))
    if table is None or table.spark is not spark:
        table = _TABLES[name, checkpoint] = MemoryTable(spark, name)
    return table
