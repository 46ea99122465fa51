"""A query becomes one streaming DataFrame.

    inputs -> exchange -> (rank -> exchange) -> join -> residual, SELECT

How inputs come to the exchange is for `inputs.py` to say, how answers leave the join for `answers.py`.
Between them only chunks travel, and the rest is Spark SQL. Nothing here touches data: it builds the plan that
Spark runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, LongType, StructField, StructType, TimestampType

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import (
    ANSWER_END,
    ANSWER_TS,
    TICK,
    BucketPlan,
    Grid,
    Shed,
    StateLimit,
    plan_bucket,
)
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.routing.routing import Native, Pipeline, Rewrite, Shares
from watersmeet.plan.routing.shares import Hypercube
from watersmeet.query import ANSWER_TIME, Query
from watersmeet.query.expression import quote_name
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.compile.cascade import cascade
from watersmeet.spark.compile.distinct_aggregates import without_distinct
from watersmeet.spark.compile.inputs import Inputs
from watersmeet.spark.compile.pipelined import pipelined
from watersmeet.spark.exchange.hot_keys import HotKeys, plan_hot_keys
from watersmeet.spark.exchange.labels import bucket_labels
from watersmeet.spark.exchange.unpack import Payload, UnpackAnswers, UnpackValues
from watersmeet.spark.exchange.wire import CHUNK, WIRE_SCHEMA
from watersmeet.spark.metrics.metrics import METRICS, metric_names, observed
from watersmeet.spark.metrics.progress import OBSERVATION, VALUES_OBSERVATION
from watersmeet.spark.stages.answers import AnswerBlobs, AnswerRows
from watersmeet.spark.stages.distinct import LEFT_OUT, VALUES_SCHEMA, DistinctStage, PackValues
from watersmeet.spark.stages.stage import JoinStage, NumberingStage, StagePlan
from watersmeet.spark.worker.frugal import frugally

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
        match self.plan.routing:
            case Native():
                counted = F.create_map(F.lit("answers"), F.count(F.lit(1)))
                return cascade(query, self.sources).observe(OBSERVATION, counted.alias(METRICS))
            case Pipeline(dataflow) | Rewrite(dataflow):
                joined = self._pipelined(dataflow, self._payload)
            case Shares(hypercube):
                joined = self._join(hypercube)
        if query.aggregate:
            return self._aggregate(joined)
        selected = self._select(joined, keep_life=query.distinct)
        return self._distinct(selected) if self._has_values else selected

    @property
    def query(self) -> Query:
        return self.plan.query

    @property
    def _payload(self) -> Payload:
        """The columns of each input that answers carry beside its keys."""
        payload = ((item.alias, self.query.payload(item.alias)) for item in self.query.inputs)
        return tuple((alias, columns) for alias, columns in payload if columns)

    def _join(self, hypercube: Hypercube) -> DataFrame:
        """Complete combinations: a struct per input, t, and what DISTINCT and aggregates need beside."""
        query, payload = self.query, self._payload
        orders = {sequence.head: sequence.order for sequence in self.plan.probing}
        grid = Grid(hypercube.shares)
        limit = self._part.share(grid.buckets) if self._part else None
        bucket = replace(plan_bucket(query, limit), initial_order=orders)
        labels = bucket_labels(self.plan.partitions)[: grid.buckets]
        streams = tuple(item.stream.name for item in query.inputs)
        fingerprint = self.plan.fingerprint
        hot = plan_hot_keys(self.spark, bucket.layout, grid, fingerprint, self.checkpoint)
        ranked = query.joins_delayed
        rank_labels = bucket_labels(self.plan.partitions)[:1]
        whole = Grid((1,) * len(grid.shares))  # one bucket: places are counted over a whole stream
        first = (whole, rank_labels) if ranked else (grid, labels)
        inputs = self._inputs(bucket, *first, hot)
        schema = self._answer_schema(payload)
        rows = AnswerRows.of(schema)
        stage = StagePlan(
            "join",
            bucket,
            streams,
            grid,
            labels,
            fingerprint,
            inputs.late,
            self._cached(grid),
            hot,
            rows or AnswerBlobs(),
            inputs.read_by_stage,
        )
        wire = inputs.wire()
        if ranked:
            kept = 1 if self.limit else None
            rank = StagePlan("rank", bucket, streams, whole, rank_labels, fingerprint, cached_buckets=kept)
            wire = wire.groupBy("bucket").transformWithStateInPandas(
                NumberingStage(rank, grid, labels), WIRE_SCHEMA, "Append", "None"
            )
        out = wire.groupBy("bucket").transformWithStateInPandas(
            JoinStage(stage), stage.output.schema, "Append", "None"
        )
        out = observed(out, OBSERVATION, metric_names(bucket.layout, streams))
        if rows is not None:
            return rows.select(out)
        unpack = UnpackAnswers(payload, query.distinct, query.aggregate is not None)
        return out.select(CHUNK).mapInArrow(frugally(unpack, self.limit), schema)

    def _inputs(self, bucket: BucketPlan, grid: Grid, labels: tuple[int, ...], hot: HotKeys | None) -> Inputs:
        """The way to the first stage, of which these are the buckets."""
        return Inputs(
            self.query,
            bucket.layout.inputs,
            self.sources,
            self.files,
            self.control,
            grid,
            labels,
            self.plan.partitions,
            hot,
            self.limit,
        )

    @property
    def _part(self) -> StateLimit | None:
        """What the join may take of the limit: all, or half where the values of DISTINCT get the other."""
        if self.limit is None or not self._has_values or self.limit.shed is Shed.NONE:
            return self.limit
        return replace(self.limit, nbytes=self.limit.nbytes // 2)

    @property
    def _has_values(self) -> bool:
        return self.query.distinct and self.query.aggregate is None

    def _pipelined(self, dataflow: SharedDataflow, payload: Payload) -> DataFrame:
        if self.limit is not None:
            raise ConfigurationError("a limit of memory goes with routing by shares: --routing shares")
        return pipelined(
            self.spark,
            self.query,
            dataflow,
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
        wire = selected.mapInArrow(frugally(PackValues(columns, labels), self.limit), WIRE_SCHEMA)
        out = wire.groupBy("bucket").transformWithStateInPandas(
            DistinctStage(stage, columns), VALUES_SCHEMA, "Append", "None"
        )
        out = out.observe(VALUES_OBSERVATION, F.sum(LEFT_OUT).alias(LEFT_OUT)).select(CHUNK)
        schema = StructType([selected.schema[name] for name in columns])
        return out.mapInArrow(frugally(UnpackValues(), self.limit), schema)

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
