"""A query becomes one streaming DataFrame.

    inputs -> exchange -> (numbering -> exchange) -> join -> residual, SELECT

What each task does is described by `plan_tasks.py`; here DataFrames are wired from that description. Between
the inputs and the answers only chunks travel, and the rest is Spark SQL. Nothing here touches data: it builds
the plan that Spark runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from watersmeet.kernel import ANSWER_END, ANSWER_TS, ENDED, TICK, StateLimit
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.routing.routing import Native
from watersmeet.query import ANSWER_TIME, Query
from watersmeet.query.expression import quote_name
from watersmeet.spark.compile.cascade import cascade
from watersmeet.spark.compile.inputs import Inputs
from watersmeet.spark.compile.plan_tasks import plan_tasks
from watersmeet.spark.compile.tasks import DistinctTasks, JoinTasks, QueryTasks, TaskOptions
from watersmeet.spark.exchange.hot_keys import read_hot_key_settings
from watersmeet.spark.exchange.messages import MESSAGES
from watersmeet.spark.exchange.unpack import CHUNK
from watersmeet.spark.grouping.group_samples import GroupedTexts, group_samples
from watersmeet.spark.metrics.metrics import METRICS
from watersmeet.spark.metrics.progress import ANSWERS_OBSERVATION, OBSERVATION, VALUES_OBSERVATION
from watersmeet.spark.multiquery.answers import column_types
from watersmeet.spark.multiquery.compile import DataflowCompiler
from watersmeet.spark.multiquery.ship import ship_dataflow
from watersmeet.spark.session.block_size import session_tuning
from watersmeet.spark.sources.parquet.files import FileNames
from watersmeet.spark.stages.distinct import LEFT_OUT
from watersmeet.spark.stages.shipped_stage import ship_stage
from watersmeet.spark.storage.run_starts import begin_run

_TICK_CLOCK = "__tick_clock"
_TICK_ORIGIN_US = 10**16  # ticks before 1970 are on the clock too


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """Builds the streaming DataFrame of one plan; `control` is a stream of which any row ends all input."""

    spark: SparkSession
    plan: PhysicalPlan
    sources: Mapping[str, DataFrame]
    control: DataFrame | None = None
    files: Mapping[str, FileNames] = field(default_factory=dict)  # names of the files of some sources
    limit: StateLimit | None = None  # of the whole query
    checkpoint: str | None = None  # the folder of the query's checkpoint, where it is known
    smaller: int = 1  # by how much batches, and so the pieces they are joined in, had to be made smaller
    keeps_time: bool = False  # whether t stays beside the answers, as a last column, `ANSWER_TS`

    def answers(self) -> DataFrame:
        """The query's answers as a streaming DataFrame, which counts what is written of it."""
        return self._answers().observe(ANSWERS_OBSERVATION, F.count(F.lit(1)).alias("rows"))

    def _answers(self) -> DataFrame:
        if isinstance(self.plan.routing, Native):
            counted = F.create_map(F.lit("answers"), F.count(F.lit(1)))
            return cascade(self.query, self.sources).observe(OBSERVATION, counted.alias(METRICS))
        tasks = self.tasks()
        joined = self._joined(tasks)
        if tasks.grouped is not None:
            return self._aggregate(tasks, tasks.grouped, joined)
        selected = self._select(tasks, joined, keep_end=self.query.distinct)
        return selected if tasks.distinct is None else self._distinct(tasks.distinct, selected)

    @property
    def query(self) -> Query:
        return self.plan.query

    def tasks(self) -> QueryTasks:
        """What the tasks of the query do, with the settings of this session."""
        options = TaskOptions(
            types=column_types(self.query.read, self.sources),
            direct={name: each.root for name, each in self.files.items()},
            limit=self.limit,
            hot=read_hot_key_settings(self.spark, self.checkpoint),
            ship=partial(ship_dataflow, self.spark),
            parallelism=self.spark.sparkContext.defaultParallelism,
            keeps_time=self.keeps_time,
            starts=begin_run(self.spark, self.query.streams, self.checkpoint),
            tuning=session_tuning(self.spark, self.smaller),
        )
        return plan_tasks(self.plan, options)

    def _joined(self, tasks: QueryTasks) -> DataFrame:
        """Complete combinations: a struct per input, t, and what DISTINCT and aggregates need beside."""
        if not isinstance(tasks.join, JoinTasks):
            blobs = DataflowCompiler(tasks.join, self.sources, self.files, self.control).answers()
            return blobs.select(CHUNK).mapInArrow(tasks.unpack, tasks.schema)
        rows = Inputs(tasks.join, self.sources, self.files, self.control).wire()
        for stage in tasks.join.stages:
            rows = rows.groupBy("bucket").transformWithStateInPandas(
                ship_stage(stage.processor), stage.schema, "Append", "None"
            )
        rows = tasks.join.metrics.observed(rows, OBSERVATION)
        if tasks.join.rows is not None:
            return tasks.join.rows.select(rows)
        return rows.select(CHUNK).mapInArrow(tasks.unpack, tasks.schema)

    def _meets_residual(self, tasks: QueryTasks, joined: DataFrame) -> DataFrame:
        """Combinations that meet the conditions over several inputs, t under its SQL name."""
        named = joined.withColumnRenamed(ANSWER_TS, ANSWER_TIME)
        return named.where(tasks.residual) if tasks.residual else named

    def _select(self, tasks: QueryTasks, joined: DataFrame, *, keep_end: bool) -> DataFrame:
        outputs = [f"{text} AS {quote_name(name)}" for text, name in tasks.select]
        if keep_end:
            outputs += [f"{ANSWER_TIME} AS {ANSWER_TS}", ANSWER_END]
            outputs += [ENDED] if ENDED in tasks.schema.names else []
        elif self.keeps_time:
            outputs.append(f"{ANSWER_TIME} AS {ANSWER_TS}")
        return self._meets_residual(tasks, joined).selectExpr(*outputs)

    def _distinct(self, distinct: DistinctTasks, selected: DataFrame) -> DataFrame:
        """Values as they appear, through a stage of their own."""
        stage = ship_stage(distinct.stage.processor)
        out = (
            selected.mapInArrow(distinct.pack, MESSAGES.spark_schema)
            .groupBy("bucket")
            .transformWithStateInPandas(stage, distinct.stage.schema, "Append", "None")
        )
        out = out.observe(VALUES_OBSERVATION, F.sum(LEFT_OUT).alias(LEFT_OUT)).select(CHUNK)
        schema = StructType([selected.schema[name] for name in distinct.released])
        return out.mapInArrow(distinct.unpack, schema)

    def _aggregate(self, tasks: QueryTasks, grouped: GroupedTexts, joined: DataFrame) -> DataFrame:
        """Groups of the answers sampled at each tick, by Spark's own streaming aggregation.

        All samples of a tick come in one batch, and later batches have later ticks, so a watermark without
        delay is exact. Spark's watermark knows milliseconds from 1970 on, so it follows the number of the
        tick on a clock of its own, one millisecond a tick.
        """
        sampled = self._meets_residual(tasks, joined).drop(ANSWER_TIME).withColumnRenamed(TICK, ANSWER_TIME)
        number = f"unix_micros({ANSWER_TIME}) div {grouped.emit_every_us}"
        sampled = sampled.withColumn(
            _TICK_CLOCK, F.expr(f"timestamp_micros({number} * 1000 + {_TICK_ORIGIN_US})")
        )
        sampled = sampled.withWatermark(_TICK_CLOCK, "0 seconds")
        time = [f"{ANSWER_TIME} AS {ANSWER_TS}"] if self.keeps_time else []
        return group_samples(sampled, grouped, [_TICK_CLOCK, ANSWER_TIME], [*grouped.selected, *time])
