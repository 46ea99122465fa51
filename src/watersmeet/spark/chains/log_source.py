"""`watersmeet-answers`: the log of a query's answers as a Spark source, batch by batch in their order.

Written with Spark's Python data source API. An offset names the log and a batch of its writer. Beside the
tuples come rows with a mark, which are no tuples. A batch of the reader has the mark of the last batch it
takes, and all answers before it.

Spark starts a Python process for each such stream of a query that starts, so this module loads little.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from watersmeet.errors import DataError
from watersmeet.kernel.layout import MARK
from watersmeet.query import Stream
from watersmeet.query.expression import quote_name
from watersmeet.spark.chains.answer_log import AnswerLog, LoggedBatch
from watersmeet.spark.worker.allocator import hand_back

FORMAT = "watersmeet-answers"
ARROW_ROWS = 100_000
MOST_BYTES = 128 << 20  # of files that a batch takes, so that a reader that was away catches up in pieces
LOOK_S = 0.05  # a log with nothing new is not looked at more often
TASK_BYTES = 16 << 20  # of files that a task reads

Offset = dict[str, Any]


@dataclass
class Part(InputPartition):
    """What a task reads: files, or a mark."""

    files: tuple[str, ...] = ()
    mark: int | None = None


class AnswersReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands out the batches of a log; a restart goes on where the checkpoint stands."""

    def __init__(self, log: AnswerLog, reader: str, schema: StructType) -> None:
        self.log = log
        self.reader = reader
        self.schema = schema
        self.until: int | None = None  # the last batch of an available-now run
        self._known: dict[int, LoggedBatch] = {}  # by their numbers, those that are still to be read
        self._looked_at = -math.inf

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"log": self.log.id, "batch": self.log.start()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        newest = self.log.newest()
        self.until = -1 if newest is None else newest.number

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        number, nbytes = int(start["batch"]), 0
        now = time.monotonic()
        if now - self._looked_at < LOOK_S and self.until is None:
            return start  # Spark asks a hundred times a second
        batches = self._after(start)
        self._looked_at = -math.inf if batches else now
        for batch in batches:
            if self.until is not None and batch.number > self.until:
                break
            number, nbytes = batch.number, nbytes + batch.nbytes
            if nbytes >= MOST_BYTES:
                break
        return {"log": start["log"], "batch": number}

    def partitions(self, start: Offset, end: Offset) -> Sequence[Part]:
        batches = [batch for batch in self._after(start) if batch.number <= int(end["batch"])]
        if int(end["batch"]) > int(start["batch"]) and (
            not batches or batches[-1].number != int(end["batch"])
        ):
            raise DataError(
                f"{self.log.root} lacks batches after {start['batch']} up to {end['batch']}, which a "
                "checkpoint says are there. Put them back from a copy, or start anew with another checkpoint"
            )
        marks = [Part(mark=max(batch.mark for batch in batches))] if batches else []
        return [*_tasks(self.log, batches), *marks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return read_part(partition, to_arrow_schema(self.schema, timezone="UTC"))

    def commit(self, end: Offset) -> None:
        with contextlib.suppress(OSError):  # then the writer keeps more
            self.log.note_done(self.reader, int(end["batch"]))

    def _after(self, start: Offset) -> list[LoggedBatch]:
        """The batches that follow one without a gap, in order."""
        if self.log.id != start["log"]:
            raise DataError(
                f"{self.log.root} is another log than the one this query has read: the query whose answers "
                "it has was begun anew. Start those that read it anew, too, with another checkpoint"
            )
        number = int(start["batch"])
        there = [each for each in self.log.numbers() if each > number]
        found = [self._known.get(each) or self.log.batch(each) for each in there]
        self._known = {batch.number: batch for batch in found if batch is not None}
        follows = {batch.previous: batch for batch in self._known.values()}
        chain = []
        while (batch := follows.get(number)) is not None:
            chain.append(batch)
            number = batch.number
        return chain


def _tasks(log: AnswerLog, batches: Sequence[LoggedBatch]) -> Iterator[Part]:
    """The files of some batches, in tasks of some bytes each."""
    held: list[str] = []
    nbytes = 0
    for batch in batches:
        held += [str(log.root / batch.folder / name) for name in batch.files]
        nbytes += batch.nbytes
        if nbytes >= TASK_BYTES:
            yield Part(tuple(held))
            held, nbytes = [], 0
    if held:
        yield Part(tuple(held))


def read_part(part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a task, with the columns of `schema`, the last of which is the mark."""
    if part.mark is not None:
        empty = [pa.nulls(1, field.type) for field in schema if field.name != MARK]
        yield pa.RecordBatch.from_arrays([*empty, pa.array([part.mark], pa.int64())], schema=schema)
    for name in part.files:
        # Spark's own timestamps may be of 96 bits, which are read as nanoseconds otherwise.
        with pq.ParquetFile(name, coerce_int96_timestamp_unit="us") as file:
            for batch in file.iter_batches(ARROW_ROWS):
                columns = [batch.column(field.name) for field in schema if field.name != MARK]
                columns.append(pa.nulls(batch.num_rows, pa.int64()))
                yield pa.RecordBatch.from_arrays(columns, schema.names).cast(schema)
    hand_back()


class AnswersSource(DataSource):
    """The source as Spark finds it by its format name."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return AnswersReader(AnswerLog(Path(self.options["path"])), self.options["reader"], schema)


def read_answers(spark: SparkSession, stream: Stream, log: AnswerLog, reader: str) -> DataFrame:
    """The tuples of a stream of answers as they come, and rows with its marks, for the query `reader`."""
    spark.dataSource.register(AnswersSource)
    columns = [*((quote_name(column.name), column.type) for column in stream.columns), (MARK, "bigint")]
    return (
        spark.readStream.format(FORMAT)
        .schema(", ".join(f"{name} {type_}" for name, type_ in columns))
        .options(path=str(log.root), reader=reader)
        .load()
    )
