"""Every answer gets an id of its own, and gets the same one when its batch is done again.

A batch that is done again after a crash has the same bag of answers in every bucket: the checkpoint says
which tuples it takes, and a tuple's bucket depends on its key alone. Only their order may differ. So an id is
made of the writer, the batch, the bucket, the answer itself, and the number of the answer among equal ones
there. Equal answers may swap numbers without any difference. This does not hold when the SELECT list has a
value that is new each time, such as rand(), which is why such queries are refused.

    answer {"dest":"x"} twice in bucket 1 of batch 7:  9f3c01ab-7-1-<hash>-0 and 9f3c01ab-7-1-<hash>-1

The answers of a shared dataflow are a union of frames, as many as the queries of the day need, and each of
them has a partition for every bucket, in order. The bucket is therefore the partition's number modulo the
number of buckets, whatever the queries are. The answers of one query in one bucket are in one partition, and
an answer's hash includes its query's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from watersmeet.errors import ConfigurationError

ANSWER_ID = "answer_id"
_HASH = "watersmeet_hash"

Hashes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Origin:
    """What the ids of a batch's answers begin with: who writes them, and the batch.

    `buckets` is how many partitions each part of a union has, where answers are a union.
    """

    writer: str
    batch: int
    buckets: int | None = None


def with_answer_ids(frame: DataFrame, origin: Origin) -> DataFrame:
    """The rows of one batch with their ids in a first column.

    Rows that have an `answer_id` already keep it.
    """
    if ANSWER_ID in frame.columns:
        return frame
    text = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    schema = StructType([StructField(ANSWER_ID, StringType(), False), *frame.schema.fields])
    return frame.withColumn(_HASH, F.xxhash64(text)).mapInArrow(AnswerIds(origin), schema)


def refuse_answer_id(what: str, columns: list[str]) -> None:
    """Refuses a query whose answers would have two columns of this name."""
    if any(name.lower() == ANSWER_ID for name in columns):
        raise ConfigurationError(
            f"{what} gives every answer an {ANSWER_ID}: call the query's column of this name something else"
        )


@dataclass(frozen=True)
class AnswerIds:
    """Puts the id before the columns of a partition's rows; called by `mapInArrow`."""

    origin: Origin

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        prefix = id_prefix(self.origin, context.partitionId())
        numbers = Numbers()
        for rows in batches:
            hashes = np.asarray(rows.column(_HASH))
            ids = name_answers(prefix, hashes, numbers.take(hashes))
            rest = rows.drop_columns([_HASH])
            yield pa.RecordBatch.from_arrays([ids, *rest.columns], [ANSWER_ID, *rest.schema.names])


def id_prefix(origin: Origin, partition: int) -> str:
    """What the ids of a partition's answers begin with.

    >>> id_prefix(Origin("9f3c01ab", 7), 5), id_prefix(Origin("9f3c01ab", 7, buckets=4), 5)
    ('9f3c01ab-7-5', '9f3c01ab-7-1')
    """
    bucket = partition if origin.buckets is None else partition % origin.buckets
    return f"{origin.writer}-{origin.batch}-{bucket}"


def name_answers(prefix: str, hashes: Hashes, numbers: Hashes) -> pa.Array:
    """The ids of answers by their hashes and their numbers among equals."""
    parts = (pa.array(hashes.view(np.uint64)), pa.array(numbers))
    return pc.binary_join_element_wise(prefix, *(pc.cast(part, pa.string()) for part in parts), "-")


class Numbers:
    """Numbers equal hashes from 0 on, over all the batches of a partition."""

    def __init__(self) -> None:
        self._known: Hashes = np.empty(0, np.int64)  # sorted
        self._taken: Hashes = np.empty(0, np.int64)

    def take(self, hashes: Hashes) -> Hashes:
        """The next numbers, one for each hash.

        >>> numbers = Numbers()
        >>> numbers.take(np.array([5, 9, 5])).tolist(), numbers.take(np.array([9, 5])).tolist()
        ([0, 0, 1], [1, 2])
        """
        unique, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        order = np.argsort(inverse, kind="stable")
        within = np.empty(len(hashes), np.int64)
        within[order] = np.arange(len(hashes)) - np.repeat(np.cumsum(counts) - counts, counts)
        before = self._before(unique)
        self._remember(unique, before + counts)
        found: Hashes = within + before[inverse]
        return found

    def _before(self, unique: Hashes) -> Hashes:
        if not len(self._known):
            return np.zeros(len(unique), np.int64)
        at = np.minimum(np.searchsorted(self._known, unique), len(self._known) - 1)
        found: Hashes = np.where(self._known[at] == unique, self._taken[at], 0)
        return found

    def _remember(self, unique: Hashes, taken: Hashes) -> None:
        # The newer of two entries has the larger count and comes first, so it is the one that stays.
        both, counts = np.concatenate((unique, self._known)), np.concatenate((taken, self._taken))
        self._known, first = np.unique(both, return_index=True)
        self._taken = counts[first]
