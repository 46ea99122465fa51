"""A query becomes one streaming DataFrame.

    sources -> project -> pack -> exchange -> (rank -> exchange) -> join -> unpack -> residual, SELECT

Everything up to `project` and from `unpack` on is Spark SQL; between them only chunks travel. Nothing here
touches data: it builds the plan that Spark runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, LongType, StructField, StructType, TimestampType

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import (
    ANSWER_END,
    ANSWER_TS,
    KEEP,
    TICK,
    TS,
    Grid,
    InputLayout,
    Shed,
    StateLimit,
    plan_bucket,
)
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.query import ANSWER_TIME, Expr, Input, Query
from watersmeet.query.expression import quote_name
from watersmeet.query.ring import Ring
from watersmeet.spark.cascade import cascade
from watersmeet.spark.distinct_aggregates import without_distinct
from watersmeet.spark.distinct_stage import LEFT_OUT, VALUES_SCHEMA, DistinctStage, PackValues
from watersmeet.spark.frugal import Batches, Frugal
from watersmeet.spark.hot_keys import HotKeys, plan_hot_keys
from watersmeet.spark.labels import bucket_labels
from watersmeet.spark.late_columns import wide_columns
from watersmeet.spark.metrics import CHUNK, STAGE_SCHEMA, observed
from watersmeet.spark.pack import CHUNK_BYTES, NOW, Pack, PackEnd
from watersmeet.spark.parquet_files import INPUT, PackFiles
from watersmeet.spark.parquet_rows import FileColumn
from watersmeet.spark.pipelined import pipelined
from watersmeet.spark.progress import OBSERVATION, VALUES_OBSERVATION
from watersmeet.spark.sources import event_microseconds
from watersmeet.spark.stage import JoinStage, RankStage, StagePlan
from watersmeet.spark.unpack import Payload, UnpackAnswers, UnpackValues
from watersmeet.spark.wire import WIRE_SCHEMA

_NOW = "unix_micros(current_timestamp())"
_TICK_CLOCK = "__tick_clock"
_TICK_ORIGIN_US = 10**16  # ticks before 1970 have a place on the clock too


@dataclass(frozen=True)
class Compiler:
    """Builds the streaming DataFrame of one plan; `control` is a stream of which any row ends all input."""

    spark: SparkSession
    plan: PhysicalPlan
    sources: Mapping[str, DataFrame]
    control: DataFrame | None = None
    files: Mapping[str, DataFrame] = field(default_factory=dict)  # names of the files of some sources
    limit: StateLimit | None = None  # of the whole query
    checkpoint: str | None = None  # the folder of the query's checkpoint, where it is known

    def answers(self) -> DataFrame:
        """The query's answers as a streaming DataFrame."""
        query = self.query
        if self.plan.is_native:
            return cascade(query, self.sources).observe(OBSERVATION, F.count(F.lit(1)).alias("answers"))
        joined = self._join()
        if query.aggregate:
            return self._aggregate(joined)
        selected = self._select(joined, keep_life=query.distinct)
        return self._distinct(selected) if self._has_values else selected

    @property
    def query(self) -> Query:
        return self.plan.query

    def _join(self) -> DataFrame:
        """Complete combinations: a struct per input, t, and what DISTINCT and aggregates need beside."""
        query = self.query
        payload = tuple((item.alias, query.payload(item.alias)) for item in query.inputs)
        payload = tuple((alias, columns) for alias, columns in payload if columns)
        if self.plan.pipeline is not None:
            return self._pipelined(self.plan.pipeline, payload)
        orders = {sequence.head: sequence.order for sequence in self.plan.probing}
        grid = Grid(self.plan.shares.shares)
        limit = self._part.share(grid.buckets) if self._part else None
        bucket = replace(plan_bucket(query, limit), initial_order=orders)
        labels = bucket_labels(self.plan.partitions)[: grid.buckets]
        streams = tuple(item.stream.name for item in query.inputs)
        late = self._late(bucket.layout.inputs)
        fingerprint = self.plan.fingerprint
        hot = plan_hot_keys(self.spark, bucket.layout, grid, fingerprint, self.checkpoint)
        stage = StagePlan("join", bucket, streams, grid, labels, fingerprint, late, self._cached(grid), hot)
        ranked = query.joins_delayed
        rank_labels = bucket_labels(self.plan.partitions)[:1]
        whole = Grid((1,) * len(grid.shares))  # one bucket: places are counted over a whole stream
        first = (whole, rank_labels) if ranked else (grid, labels)
        wire = self._packed(bucket.layout.inputs, *first, hot)
        if ranked:
            kept = 1 if self.limit else None
            rank = StagePlan("rank", bucket, streams, whole, rank_labels, fingerprint, cached_buckets=kept)
            wire = wire.groupBy("bucket").transformWithStateInPandas(
                RankStage(rank, grid, labels), WIRE_SCHEMA, "Append", "None"
            )
        out = wire.groupBy("bucket").transformWithStateInPandas(
            JoinStage(stage), STAGE_SCHEMA, "Append", "None"
        )
        out = out.observe(OBSERVATION, *observed(bucket.layout, streams))
        unpack = UnpackAnswers(payload, query.distinct, query.aggregate is not None)
        return out.select("chunk").mapInArrow(self._frugally(unpack), self._answer_schema(payload))

    @property
    def _part(self) -> StateLimit | None:
        """What the join may take of the limit: all, or half where the values of DISTINCT get the other."""
        if self.limit is None or not self._has_values or self.limit.shed is Shed.NONE:
            return self.limit
        return replace(self.limit, nbytes=self.limit.nbytes // 2)

    @property
    def _has_values(self) -> bool:
        return self.query.distinct and self.query.aggregate is None

    def _pipelined(self, ring: Ring, payload: Payload) -> DataFrame:
        if self.limit is not None:
            raise ConfigurationError("a limit of memory goes with routing by shares: --routing shares")
        return pipelined(
            self.spark,
            self.query,
            ring,
            self.sources,
            self.files,
            partitions=self.plan.partitions,
            fingerprint=self.plan.fingerprint,
            control=self.control,
            payload=payload,
            schema=self._answer_schema(payload),
        )

    def _cached(self, grid: Grid) -> int | None:
        """How many buckets a worker keeps under a limit: not those that others are at work on by now."""
        workers = max(1, self.spark.sparkContext.defaultParallelism)
        return -(-grid.buckets // workers) if self.limit else None

    def _frugally(self, function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
        """The same function, which under a limit of memory leaves nothing behind in its worker."""
        return Frugal(function) if self.limit else function

    @property
    def _chunk_bytes(self) -> int:
        least = 1 << 20
        return CHUNK_BYTES if self.limit is None else max(least, min(CHUNK_BYTES, self.limit.nbytes // 16))

    def _packed(
        self, layouts: tuple[InputLayout, ...], grid: Grid, labels: tuple[int, ...], hot: HotKeys | None
    ) -> DataFrame:
        """The wire rows of all inputs; neighbours whose files are read directly share their tasks."""
        parts: list[DataFrame] = []
        inputs = enumerate(zip(self.query.inputs, layouts, strict=True))
        for is_direct, group in itertools.groupby(inputs, lambda each: self._is_direct(*each[1])):
            if is_direct:
                parts.append(self._packed_files(list(group), grid, labels, hot))
                continue
            for number, (item, layout) in group:
                projected, columns = self._projected(item, layout)
                pack = self._pack(number, layout, columns, grid, labels, hot)
                parts.append(projected.mapInArrow(self._frugally(pack), WIRE_SCHEMA))
        if self.control is not None:
            parts.append(self.control.mapInArrow(PackEnd(labels), WIRE_SCHEMA))
        return reduce(DataFrame.unionAll, parts)

    def _pack(
        self,
        number: int,
        layout: InputLayout,
        names: tuple[str, ...],
        grid: Grid,
        labels: tuple[int, ...],
        hot: HotKeys | None,
    ) -> Pack:
        return Pack(number, layout, names, grid, labels, hot, self._chunk_bytes)

    def _is_direct(self, item: Input, layout: InputLayout) -> bool:
        """Whether an input's files go into chunks without an expression of Spark's between."""
        keys = [self._attribute(item, cls) for cls in layout.classes]
        return (
            item.stream.name in self.files
            and not item.filters
            and not layout.window.counts_rows
            and all(expr.is_column and type_ in (expr.type, None) for expr, type_ in keys)
        )

    def _packed_files(
        self,
        group: list[tuple[int, tuple[Input, InputLayout]]],
        grid: Grid,
        labels: tuple[int, ...],
        hot: HotKeys | None,
    ) -> DataFrame:
        packs, frames = {}, []
        for number, (item, layout) in group:
            columns = self._file_columns(item, layout)
            names = tuple(column.name for column in columns)
            packs[number] = (self._pack(number, layout, names, grid, labels, hot), columns)
            frame = self.files[item.stream.name].withColumn(INPUT, F.lit(number))
            frames.append(frame.withColumn(NOW, F.expr(_NOW)) if self._tells_time else frame)
        united = reduce(DataFrame.unionAll, frames).coalesce(self.plan.partitions)
        # Under a limit of memory a batch is joined in pieces, each of which would open the files again.
        pack = PackFiles(packs, may_be_late=self.limit is None)
        return united.mapInArrow(self._frugally(pack), WIRE_SCHEMA)

    def _file_columns(self, item: Input, layout: InputLayout) -> tuple[FileColumn, ...]:
        """What the chunks of an input hold, as columns of its files."""
        time = item.stream.event_time
        assert time is not None
        types = {column.name: column.type for column in item.stream.columns}
        columns = [FileColumn(TS, time, types[time], is_time=True)]
        for cls, name in layout.keys:
            column = self._attribute(item, cls)[0].columns[0].column
            columns.append(FileColumn(name, column, types[column], is_key=True))
        known = {column.name for column in columns}
        return (
            *columns,
            *(FileColumn(name, name, types[name]) for name in layout.payload if name not in known),
        )

    def _late(self, layouts: tuple[InputLayout, ...]) -> dict[str, tuple[FileColumn, ...]]:
        """The columns, by alias, that may come after the join."""
        inputs = zip(self.query.inputs, layouts, strict=True)
        return {
            item.alias: wide_columns(self._file_columns(item, layout))
            for item, layout in inputs
            if self._is_direct(item, layout)
        }

    def _projected(self, item: Input, layout: InputLayout) -> tuple[DataFrame, tuple[str, ...]]:
        """One input as the columns its chunks hold, and which of them those are."""
        source = self.sources[item.stream.name].alias(item.alias)
        keep = " AND ".join(f"({expr.sql})" for expr in item.filters)
        selected = {TS: event_microseconds(item.stream, item.alias)}
        for cls, name in layout.keys:
            selected[name] = self._key(item, cls)
        payload = list(layout.payload)
        if layout.window.counts_rows:  # tuples of one instant are ordered by all their values
            payload += [
                column.name for column in item.stream.columns if column.name != item.stream.event_time
            ]
        for column in dict.fromkeys(payload):
            selected.setdefault(column, f"{quote_name(item.alias)}.{quote_name(column)}")
        if keep and not layout.window.counts_rows:  # what the filter drops need not travel to be counted
            selected = {
                name: text if name == TS else f"CASE WHEN {keep} THEN {text} END"
                for name, text in selected.items()
            }
        columns = tuple(selected)
        if keep:
            selected[KEEP] = keep
            columns += (KEEP,) if layout.window.counts_rows else ()
        if self._tells_time:
            selected[NOW] = _NOW
        return source.selectExpr(*(f"{text} AS {quote_name(n)}" for n, text in selected.items())), columns

    @property
    def _tells_time(self) -> bool:
        """Whether the batch's own time travels with the tuples, for streams that may fall idle."""
        return any(stream.idle_after_us is not None for stream in self.query.streams)

    def _key(self, item: Input, cls: int) -> str:
        expr, type_ = self._attribute(item, cls)
        return expr.sql if type_ is None or expr.type == type_ else f"CAST({expr.sql} AS {type_})"

    def _attribute(self, item: Input, cls: int) -> tuple[Expr, str | None]:
        """An input's side of the equalities of a class, and the type in which they are compared."""
        attribute = self.query.graph.classes[cls].of(item.alias)
        assert attribute is not None
        return attribute.expr, self.query.graph.classes[cls].type

    def _answer_schema(self, payload: Payload) -> StructType:
        fields = []
        for alias, columns in payload:
            types = {f.name: f.dataType for f in self.sources[self.query.input(alias).stream.name].schema}
            fields.append(StructField(alias, _struct({name: types[name] for name in columns})))
        fields.append(StructField(ANSWER_TS, TimestampType()))
        if self.query.distinct:
            fields.append(StructField(ANSWER_END, LongType()))
        if self.query.aggregate:
            fields.append(StructField(TICK, TimestampType()))
        return StructType(fields)

    def _meets_residual(self, joined: DataFrame) -> DataFrame:
        """Combinations that meet the conditions over several inputs, t under its SQL name."""
        named = joined.withColumnRenamed(ANSWER_TS, ANSWER_TIME)
        condition = " AND ".join(f"({expr.sql})" for expr in self.query.residual)
        return named.where(condition) if condition else named

    def _select(self, joined: DataFrame, *, keep_life: bool) -> DataFrame:
        outputs = [f"{output.expr.sql} AS {quote_name(output.name)}" for output in self.query.select]
        if keep_life:
            outputs += [f"{ANSWER_TIME} AS {ANSWER_TS}", ANSWER_END]
        return self._meets_residual(joined).selectExpr(*outputs)

    def _distinct(self, selected: DataFrame) -> DataFrame:
        """Values as they appear, through a stage of their own."""
        columns = tuple(output.name for output in self.query.select)
        labels = bucket_labels(self.plan.partitions)
        grid, fingerprint = Grid((len(labels),)), self.plan.fingerprint
        bucket = plan_bucket(self.query, self._part.share(grid.buckets) if self._part else None)
        cached = self._cached(grid)
        stage = StagePlan("distinct", bucket, (), grid, labels, fingerprint, cached_buckets=cached)
        wire = selected.mapInArrow(self._frugally(PackValues(columns, labels)), WIRE_SCHEMA)
        out = wire.groupBy("bucket").transformWithStateInPandas(
            DistinctStage(stage, columns), VALUES_SCHEMA, "Append", "None"
        )
        out = out.observe(VALUES_OBSERVATION, F.sum(LEFT_OUT).alias(LEFT_OUT)).select(CHUNK)
        schema = StructType([selected.schema[name] for name in columns])
        return out.mapInArrow(self._frugally(UnpackValues()), schema)

    def _aggregate(self, joined: DataFrame) -> DataFrame:
        """Groups of the answers sampled at each tick, by Spark's own streaming aggregation.

        All samples of a tick come in one batch, and later batches have later ticks, so a watermark without
        delay is exact. Spark's watermark knows milliseconds from 1970 on, so it follows the number of the
        tick on a clock of its own, one millisecond a tick.
        """
        aggregate = self.query.aggregate
        assert aggregate is not None
        sampled = self._meets_residual(joined).drop(ANSWER_TIME).withColumnRenamed(TICK, ANSWER_TIME)
        number = f"unix_micros({ANSWER_TIME}) div {aggregate.emit_every_us}"
        sampled = sampled.withColumn(
            _TICK_CLOCK, F.expr(f"timestamp_micros({number} * 1000 + {_TICK_ORIGIN_US})")
        )
        sampled = sampled.withWatermark(_TICK_CLOCK, "0 seconds")
        outputs = ", ".join(
            f"{without_distinct(output.expr.sql)} AS {quote_name(output.name)}"
            for output in self.query.select
        )
        groups = ", ".join([_TICK_CLOCK, ANSWER_TIME, *(expr.sql for expr in aggregate.group_by)])
        having = f" HAVING {without_distinct(aggregate.having.sql)}" if aggregate.having else ""
        return self.spark.sql(f"SELECT {outputs} FROM {{sampled}} GROUP BY {groups}{having}", sampled=sampled)


def _struct(types: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in types.items()])
