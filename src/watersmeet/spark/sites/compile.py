"""One site's part of a query as a streaming DataFrame: what leaves its last level, for its sink and links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import ANSWER_TS
from watersmeet.plan.sites.change_over import Tenure
from watersmeet.query import ANSWER_TIME, BEGINNING, NEVER
from watersmeet.query.expression import quote_name
from watersmeet.spark.compile.tasks import PackRows
from watersmeet.spark.exchange.codec import KIND
from watersmeet.spark.exchange.labels import every_bucket_sql
from watersmeet.spark.exchange.messages import EndOfInput
from watersmeet.spark.exchange.unpack import CHUNK
from watersmeet.spark.multiquery.compile import through_levels
from watersmeet.spark.multiquery.messages import Answers
from watersmeet.spark.sites.messages import SITE_MESSAGES
from watersmeet.spark.sites.tasks import SiteTasks


@dataclass(frozen=True)
class SiteCompiler:
    """Wires a site's tasks; any row of the stream `control` ends the input of its own streams."""

    tasks: SiteTasks
    sources: Mapping[str, DataFrame]  # the tuples of each stream, by name
    links: Mapping[str, DataFrame]  # the rows of each link, by the site it comes from
    control: DataFrame

    def messages(self) -> DataFrame:
        """What leaves the last level, as rows of messages."""
        return through_levels(self._arriving(), self.tasks.stages, SITE_MESSAGES, self.tasks.metrics)

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
    """The answers among the messages that leave the last level."""
    blobs = messages.where(F.col(KIND) == Answers.__name__)
    blobs = blobs.select(F.col(SITE_MESSAGES.column(Answers, "chunk")).alias(CHUNK))
    joined = blobs.mapInArrow(tasks.unpack, tasks.schema).withColumnRenamed(ANSWER_TS, ANSWER_TIME)
    kept = joined.where(tasks.residual) if tasks.residual else joined
    for condition in _within(tasks.tenure):
        kept = kept.where(condition)
    return kept.selectExpr(*(f"{text} AS {quote_name(name)}" for text, name in tasks.select))


def _within(tenure: Tenure) -> list[str]:
    """What the t of an answer has to meet."""
    ends = ((">=", tenure.since_us, BEGINNING), ("<", tenure.until_us, NEVER))
    return [
        f"{quote_name(ANSWER_TIME)} {sign} timestamp_micros({at_us})"
        for sign, at_us, open_ in ends
        if at_us != open_
    ]
