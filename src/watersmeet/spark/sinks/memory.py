"""Answers in a table of the session, for notebooks: `spark.table("name of the sink")`.

Spark's own memory sink cannot go on from a checkpoint, so neither can a query that ends in two runs. This one
keeps batches by their number: one that is done again takes the place of itself. The table lives as long as
the process; after a restart it holds what comes from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

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


def memory_table(spark: SparkSession, name: str, checkpoint: str) -> MemoryTable:
    """The table of a sink under a checkpoint: a query that resumes in this session goes on filling it."""
    table = _TABLES.get((name, checkpoint))
    if table is None or table.spark is not spark:
        table = _TABLES[name, checkpoint] = MemoryTable(spark, name)
    return table
