"""One site's part of a query as a streaming DataFrame: what leaves its last level, for its sink and links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from watersmeet.kernel import ANSWER_END, ANSWER_TS, TICK
from watersmeet.plan.sites.change_over import Tenure
from watersmeet.query import ANSWER_TIME, BEGINNING, NEVER
from watersmeet.query.expression import quote_name
from watersmeet.spark.compile.tasks import PackRows
from watersmeet.spark.exchange.codec import BUCKET, KIND
from watersmeet.spark.exchange.labels import every_bucket_sql
from watersmeet.spark.exchange.messages import EndOfInput
from watersmeet.spark.exchange.unpack import CHUNK, UnpackValues
from watersmeet.spark.grouping.group_samples import group_samples, grouped_texts
from watersmeet.spark.multiquery.compile import through_levels
from watersmeet.spark.multiquery.messages import Answers
from watersmeet.spark.sites.messages import SITE_MESSAGES
from watersmeet.spark.sites.tail.select_values import (
    IS_ANSWER,
    MESSAGE_COLUMNS,
    PackSelected,
    SpreadAnswers,
    spread_schema,
)
from watersmeet.spark.sites.tail.value_stage import ValueStage
from watersmeet.spark.sites.tasks import SiteTasks
from watersmeet.spark.stages.shipped_stage import ship_stage


@dataclass(frozen=True)
class SiteCompiler:
    """Wires a site's tasks; any row of the stream `control` ends the input of its own streams."""

    tasks: SiteTasks
    sources: Mapping[str, DataFrame]  # the tuples of each stream, by name
    links: Mapping[str, DataFrame]  # the rows of each link, by the site it comes from
    control: DataFrame

    def messages(self) -> DataFrame:
        """What leaves the last stage, as rows of messages."""
        tasks = self.tasks
        rows = through_levels(self._arriving(), tasks.stages, SITE_MESSAGES, tasks.metrics)
        return rows if tasks.values is None else _through_values(tasks, rows, tasks.values)

    def _arriving(self) -> DataFrame:
        """Spark's checkpoint knows sources by their order: streams as in FROM, links by name, the control."""
        parts = [self._packed(task) for task in self.tasks.inputs]
        parts += [
            self.links[source].mapInArrow(self.tasks.links[source], SITE_MESSAGES.spark_schema)
            for source in sorted(self.links)
        ]
        ends = SITE_MESSAGES.to_sql(EndOfInput, bucket=every_bucket_sql(self.tasks.labels))
        return reduce(DataFrame.unionAll, [*parts, self.control.selectExpr(*ends)])

    def _packed(self, task: PackRows) -> DataFrame:
        source = self.sources[task.stream].alias(task.alias)
        projected = source.selectExpr(*(f"{each.sql} AS {quote_name(each.name)}" for each in task.columns))
        return projected.mapInArrow(task.pack, SITE_MESSAGES.spark_schema)


def answers_in(tasks: SiteTasks, messages: DataFrame) -> DataFrame:
    """The answers among the messages that leave the last stage."""
    blobs = messages.where(F.col(KIND) == Answers.__name__)
    blobs = blobs.select(F.col(SITE_MESSAGES.column(Answers, "chunk")).alias(CHUNK))
    if tasks.values is not None:
        columns = _value_columns(tasks, messages.sparkSession)
        return blobs.mapInArrow(UnpackValues(tuple(columns.names)), columns)
    joined = blobs.mapInArrow(tasks.unpack, tasks.schema).withColumnRenamed(ANSWER_TS, ANSWER_TIME)
    kept = joined.where(tasks.residual) if tasks.residual else joined
    if (grouped := grouped_texts(tasks.query)) is not None:
        sampled = kept.drop(ANSWER_TIME).withColumnRenamed(TICK, ANSWER_TIME)
        return group_samples(sampled, grouped, [ANSWER_TIME], grouped.selected)
    for condition in _within(tasks.tenure):
        kept = kept.where(condition)
    return kept.selectExpr(*(f"{text} AS {quote_name(name)}" for text, name in tasks.select))


def _through_values(tasks: SiteTasks, rows: DataFrame, stage: ValueStage) -> DataFrame:
    """The SELECT list over the answers among messages, and their values through the stage that keeps them."""
    plan = stage.plan
    spread = rows.mapInArrow(SpreadAnswers(tasks.unpack, tasks.schema), spread_schema(tasks.schema))
    selected = _selected(tasks, spread, (*MESSAGE_COLUMNS, f"{ANSWER_TIME} AS {ANSWER_TS}", ANSWER_END))
    packed = selected.mapInArrow(PackSelected(plan.columns, plan.labels), SITE_MESSAGES.spark_schema)
    return packed.groupBy(BUCKET).transformWithStateInPandas(
        ship_stage(stage), SITE_MESSAGES.spark_schema, "Append", "None"
    )


def _selected(tasks: SiteTasks, spread: DataFrame, beside: tuple[str, ...]) -> DataFrame:
    """The SELECT list, of what is an answer alone: an expression may fail on the NULLs of all else."""
    named = spread.withColumnRenamed(ANSWER_TS, ANSWER_TIME)
    kept = named.where(f"NOT ({IS_ANSWER}) OR ({tasks.residual})") if tasks.residual else named
    values = (f"CASE WHEN {IS_ANSWER} THEN {text} END AS {quote_name(name)}" for text, name in tasks.select)
    return kept.selectExpr(*values, *beside)


def _value_columns(tasks: SiteTasks, spark: SparkSession) -> StructType:
    """The columns of the SELECT list with their types."""
    nothing = spark.createDataFrame([], spread_schema(tasks.schema))
    return _selected(tasks, nothing, ()).schema


def _within(tenure: Tenure) -> list[str]:
    """What the t of an answer has to meet."""
    ends = ((">=", tenure.since_us, BEGINNING), ("<", tenure.until_us, NEVER))
    return [
        f"{quote_name(ANSWER_TIME)} {sign} timestamp_micros({at_us})"
        for sign, at_us, open_ in ends
        if at_us != open_
    ]
