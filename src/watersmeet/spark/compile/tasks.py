"""The tasks of a query as data: what is packed and how, the stages in order, how answers leave them.

Spark's plan is wired from this description (`compile.py`), and so is the in-process engine of
`watersmeet.testing`. Expressions are Spark SQL text; callables take and give Arrow batches, as `mapInArrow`
has them; stages are processors of `transformWithState`. Nothing here holds a session or a DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from watersmeet.kernel import StateLimit
from watersmeet.query import Query, Reading
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.exchange.hot_keys import HotKeySettings
from watersmeet.spark.grouping.group_samples import GroupedTexts
from watersmeet.spark.metrics.metrics import Metrics
from watersmeet.spark.multiquery.answers import Types
from watersmeet.spark.multiquery.levels import LevelTasks
from watersmeet.spark.multiquery.ship import ShippedDataflow, ship_inline
from watersmeet.spark.stages.answers import AnswerRows
from watersmeet.spark.tuning import DEFAULT, Tuning

Batches = Iterator[pa.RecordBatch]
MapBatches = Callable[[Batches], Batches]


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What the tasks of a query depend on beside its plan."""

    types: Types  # of the streams' columns, as Spark has them
    # Streams whose files are read without Spark's reader, and the folder below which folders give columns.
    direct: Mapping[str, str | None] = field(default_factory=dict)
    limit: StateLimit | None = None  # of the whole query
    hot: HotKeySettings | None = None  # None: no value is spread
    ship: Callable[[SharedDataflow], ShippedDataflow] = ship_inline  # how a pipeline reaches the workers
    parallelism: int = 1  # tasks that run side by side
    keeps_time: bool = False  # whether distinct values keep t
    starts: tuple[int, ...] = ()  # of the query's runs, as far as they are known, in microseconds
    tuning: Tuning = DEFAULT


@dataclass(frozen=True)
class ProjectedColumn:
    """A column of the rows to pack: SQL text over the input, and Spark's name of its type where known."""

    name: str
    sql: str
    type: str | None = None


@dataclass(frozen=True)
class PackRows:
    """An input that Spark reads: its rows, or those of a view's branch, are projected and packed."""

    reading: Reading
    alias: str
    columns: tuple[ProjectedColumn, ...]
    pack: MapBatches

    @property
    def stream(self) -> str:
        return self.reading.stream.name


@dataclass(frozen=True)
class PackNamedFiles:
    """Inputs whose files the packing tasks read: rows (input, path) are packed."""

    streams: tuple[tuple[int, str], ...]  # number of the input, its stream
    pack: MapBatches


@dataclass(frozen=True)
class SendFileNames:
    """An input whose files the join stage reads: every bucket is sent their names."""

    number: int
    stream: str


InputTask = PackRows | PackNamedFiles | SendFileNames


@dataclass(frozen=True)
class StageTask:
    """A stateful stage over rows grouped by `bucket`, and the schema of its output."""

    name: str
    processor: StatefulProcessor
    schema: StructType


@dataclass(frozen=True, kw_only=True)
class JoinTasks:
    """A join in buckets, behind a numbering stage where the query has ROWS windows."""

    inputs: tuple[InputTask, ...]
    labels: tuple[int, ...]  # of the buckets of the first stage
    reports_time: bool  # whether the batch's own time travels with the tuples
    stages: tuple[StageTask, ...]
    metrics: Metrics
    rows: AnswerRows | None  # how answers leave the last stage as rows; None: as blobs, to be unpacked
    partitions: int


@dataclass(frozen=True)
class DistinctTasks:
    """The values of SELECT DISTINCT, through a stage of their own; `released` may have t beside them."""

    columns: tuple[str, ...]
    released: tuple[str, ...]
    pack: MapBatches
    stage: StageTask
    unpack: MapBatches


@dataclass(frozen=True, kw_only=True)
class QueryTasks:
    """A query from its inputs to its answers."""

    query: Query
    join: JoinTasks | LevelTasks
    schema: StructType  # of complete combinations: a struct for each input, t, and the end or the tick
    unpack: MapBatches  # of blobs, where answers leave the join so
    residual: str | None
    select: tuple[tuple[str, str], ...]  # SQL text, name
    distinct: DistinctTasks | None = None
    grouped: GroupedTexts | None = None
