"""The SELECT list of a DISTINCT between two stages of a site, evaluated by Spark over the answers alone.

    messages -> spread: answers as rows of structs -> residual, SELECT -> pack: values by hash -> messages

All else that leaves a site goes the same way, in the columns of messages, with NULL for what answers have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from watersmeet.kernel import ANSWER_END, ANSWER_TS
from watersmeet.spark.exchange.codec import KIND
from watersmeet.spark.exchange.packed_chunk import PackedChunk
from watersmeet.spark.exchange.unpack import CHUNK, UnpackAnswers
from watersmeet.spark.multiquery.messages import Answers
from watersmeet.spark.sites.messages import SITE_MESSAGES
from watersmeet.spark.sites.tail.value_stage import VALUES
from watersmeet.spark.stages.distinct import split_values

_OF_MESSAGE = "__message_"  # no alias and no output starts with this
IS_ANSWER = f"{_OF_MESSAGE}{KIND} = '{Answers.__name__}'"
MESSAGE_COLUMNS = tuple(f"{_OF_MESSAGE}{name}" for name in SITE_MESSAGES.arrow_schema.names)


def spread_schema(schema: StructType) -> StructType:
    """Messages and answers side by side; `schema` is that of complete combinations."""
    messages = [
        StructField(f"{_OF_MESSAGE}{field.name}", field.dataType) for field in SITE_MESSAGES.spark_schema
    ]
    return StructType([*messages, *schema])


@dataclass(frozen=True)
class SpreadAnswers:
    """Makes rows of the answers among messages; called by `mapInArrow`."""

    unpack: UnpackAnswers
    schema: StructType  # of complete combinations

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wide = to_arrow_schema(spread_schema(self.schema), timezone="UTC")
        chunk = SITE_MESSAGES.column(Answers, CHUNK)
        for batch in batches:
            is_answer = pc.equal(batch.column(KIND), Answers.__name__)
            others = batch.filter(pc.invert(is_answer))
            if others.num_rows:
                nulls = [pa.nulls(others.num_rows)] * len(self.schema)
                yield _fitted([*others.columns, *nulls], wide)
            column = SITE_MESSAGES.arrow_schema.get_field_index(chunk)
            blobs = pa.RecordBatch.from_arrays([batch.filter(is_answer).column(column)], names=[CHUNK])
            for rows in self.unpack(iter([blobs])):
                kind = pa.array([Answers.__name__] * rows.num_rows)
                nulls = [pa.nulls(rows.num_rows)] * (len(MESSAGE_COLUMNS) - 1)
                yield _fitted([kind, *nulls, *rows.columns], wide)


def _fitted(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """All batches of a task have one schema, whatever they have to say in it."""
    arrays = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class PackSelected:
    """Makes messages again: values go to buckets by the hash of all of their columns."""

    columns: tuple[str, ...]
    labels: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = SITE_MESSAGES.arrow_schema.names
        for batch in batches:
            is_answer = pc.equal(batch.column(f"{_OF_MESSAGE}{KIND}"), Answers.__name__)
            others = batch.filter(pc.invert(is_answer))
            if others.num_rows:
                own = [others.column(f"{_OF_MESSAGE}{name}") for name in names]
                yield pa.RecordBatch.from_arrays(own, schema=SITE_MESSAGES.arrow_schema)
            values = batch.filter(is_answer).select([*self.columns, ANSWER_TS, ANSWER_END])
            if values.num_rows:
                yield SITE_MESSAGES.to_arrow(self.messages(values))

    def messages(self, values: pa.RecordBatch) -> Sequence[Answers]:
        """Values with t and the end of each, as messages for the stage that keeps them."""
        parts = split_values(values, self.columns, self.labels)
        return [Answers(label, VALUES, int(part.num_rows), PackedChunk(part)) for label, part in parts]
