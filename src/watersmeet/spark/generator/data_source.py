"""`watersmeet-generator`: the made-up streams of `generator.py` as a Spark source.

Written with Spark's Python data source API: an offset is a row number, readers return Arrow batches, and
streams, batches and available-now runs give the same tuples.

Spark starts a Python process for each such stream of a query that starts, so this module loads little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from watersmeet.errors import ConfigurationError
from watersmeet.query import Column
from watersmeet.spark.generator import FORMAT
from watersmeet.spark.generator.generator import DEFAULT_COLUMNS, Generator, generate, parse_options
from watersmeet.spark.worker.allocator import hand_back

ARROW_ROWS = 100_000


@dataclass
class Rows(InputPartition):
    """A range of row numbers, the work of one task."""

    start: int
    end: int


def _split(start: int, end: int, parts: int) -> list[Rows]:
    cuts = [start + (end - start) * part // parts for part in range(parts + 1)]
    return [Rows(low, high) for low, high in pairwise(cuts) if low < high]


def _read(generator: Generator, schema: StructType, rows: Rows) -> Iterator[pa.RecordBatch]:
    declared = to_arrow_schema(schema, timezone="UTC")
    for start in range(rows.start, rows.end, ARROW_ROWS):
        yield generate(generator, start, min(start + ARROW_ROWS, rows.end)).cast(declared)
    hand_back()


class GeneratorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands out row numbers as the clock allows; a restart goes on where the checkpoint stands."""

    def __init__(self, generator: Generator, schema: StructType) -> None:
        self.generator = generator
        self.schema = schema
        self.began: tuple[int, float] | None = None  # a row, and when it was due
        self.is_available_now = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        if self.generator.rows is None:
            raise ConfigurationError(f"{FORMAT} never ends: to take what is there and stop, give it rows")
        self.is_available_now = True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self.generator.rows_per_batch
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"row": self.latest_row(start["row"], limit, time.monotonic())}

    def latest_row(self, start: int, limit: ReadLimit, now_s: float) -> int:
        """The end of the next micro-batch, were it planned at this moment."""
        self.began = self.began or (start, now_s)
        first, since = self.began
        due = first + int((now_s - since) * self.generator.rate)
        total = self.generator.rows
        latest = total if self.is_available_now and total is not None else due
        latest = latest if total is None else min(latest, total)
        if isinstance(limit, ReadMaxRows):
            latest = min(latest, start + limit.max_rows)
        return max(start, latest)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Rows]:
        return _split(start["row"], end["row"], self.generator.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        return _read(self.generator, self.schema, partition)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to forget: rows can always be made again."""


class GeneratorReader(DataSourceReader):
    """All the rows at once, for `spark.read`."""

    def __init__(self, generator: Generator, schema: StructType) -> None:
        if generator.rows is None:
            raise ConfigurationError(f"{FORMAT} never ends: to read it as a batch, give it rows")
        self.generator = generator
        self.schema = schema
        self.rows = generator.rows

    def partitions(self) -> Sequence[Rows]:
        return _split(0, self.rows, self.generator.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark asks once with no partition where there are no rows.
        return _read(self.generator, self.schema, partition if isinstance(partition, Rows) else Rows(0, 0))


class GeneratorSource(DataSource):
    """The source as Spark finds it by its format name."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ", ".join(column.pretty() for column in DEFAULT_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return GeneratorReader(self._generator(schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return GeneratorStreamReader(self._generator(schema), schema)

    def _generator(self, schema: StructType) -> Generator:
        columns = tuple(Column(field.name, field.dataType.simpleString()) for field in schema.fields)
        return parse_options(dict(self.options), columns)


def register(spark: SparkSession) -> None:
    """Makes the format known to a session."""
    spark.dataSource.register(GeneratorSource)
