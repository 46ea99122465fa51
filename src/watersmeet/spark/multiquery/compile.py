"""A shared dataflow becomes one streaming DataFrame: of answers in blobs, each with the name of its template.

    streams -> project -> pack -> exchange -> level 1 -> exchange -> level 2 ... -> answers

A stream is read once, whatever the number of queries. All streams are read at all times, since Spark's
checkpoint knows its sources by their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import KEEP
from watersmeet.plan.state_format import identify_dataflow
from watersmeet.query import Stream
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.exchange.codec import BUCKET, KIND, Codec
from watersmeet.spark.exchange.file_input import number_files
from watersmeet.spark.exchange.labels import every_bucket_sql
from watersmeet.spark.exchange.messages import EndOfInput
from watersmeet.spark.metrics.metrics import Metrics
from watersmeet.spark.metrics.progress import OBSERVATION
from watersmeet.spark.multiquery.levels import LevelTasks, PackFeedFiles, PackFeeds
from watersmeet.spark.multiquery.messages import LEVEL_MESSAGES, Answers, LevelMetrics
from watersmeet.spark.multiquery.stage import SharedStage
from watersmeet.spark.sources.derived.view_rows import reading_rows
from watersmeet.spark.sources.parquet.files import FileNames
from watersmeet.spark.stages.shipped_stage import ship_stage
from watersmeet.spark.worker.frugal import frugally


@dataclass(frozen=True)
class DataflowCompiler:
    """Builds the streaming DataFrame of a dataflow; any row of the stream `control` ends all input."""

    tasks: LevelTasks
    sources: Mapping[str, DataFrame]
    files: Mapping[str, FileNames] = field(default_factory=dict)  # names of the files of some sources
    control: DataFrame | None = None

    def answers(self) -> DataFrame:
        """Rows (source, rows, chunk): the name of a template, and answers of queries with this template."""
        rows = through_levels(self._packed(), self.tasks.stages, LEVEL_MESSAGES, self.tasks.metrics)
        columns = {"source": "template", "rows": "rows", "chunk": "chunk"}
        return rows.where(F.col(KIND) == Answers.__name__).select(
            *(F.col(LEVEL_MESSAGES.column(Answers, own)).alias(name) for name, own in columns.items())
        )

    def _packed(self) -> DataFrame:
        parts = [
            self._packed_rows(each) if isinstance(each, PackFeeds) else self._packed_files(each)
            for each in self.tasks.inputs
        ]
        if self.control is not None:
            ends = LEVEL_MESSAGES.to_sql(EndOfInput, bucket=every_bucket_sql(self.tasks.labels))
            parts.append(self.control.selectExpr(*ends))
        return reduce(DataFrame.unionAll, parts)

    def _packed_rows(self, each: PackFeeds) -> DataFrame:
        frame = reading_rows(self.sources, each.reading)
        selected = [f"{text} AS {name}" for name, text, _ in each.columns]
        if each.keep is not None:
            frame = frame.alias(each.alias).withColumn(KEEP, F.expr(each.keep))
            selected.append(KEEP)
        pack = frugally(each.pack, self.tasks.limit)
        return frame.alias(each.stream).selectExpr(*selected).mapInArrow(pack, LEVEL_MESSAGES.spark_schema)

    def _packed_files(self, each: PackFeedFiles) -> DataFrame:
        named = [(number, self.files[stream].names) for number, stream in each.streams]
        rows = number_files(named, self.tasks.partitions, reports_time=self.tasks.reports_time)
        return rows.mapInArrow(frugally(each.pack, self.tasks.limit), LEVEL_MESSAGES.spark_schema)


def through_levels(
    rows: DataFrame, stages: Sequence[SharedStage], messages: Codec[Any], metrics: Metrics
) -> DataFrame:
    """What leaves the last of the levels, one stage each, as rows of messages; their metrics are observed."""
    for stage in stages:
        rows = rows.groupBy(BUCKET).transformWithStateInPandas(
            ship_stage(stage), messages.spark_schema, "Append", "None"
        )
    is_metrics = F.col(KIND) == LevelMetrics.__name__
    text = F.when(is_metrics, F.col(messages.column(LevelMetrics, "text")))
    return metrics.observed(rows, OBSERVATION, text)


def dataflow_fingerprint(dataflow: SharedDataflow, streams: Sequence[Stream], partitions: int) -> str:
    """What the state of a shared dataflow depends on, whatever its queries."""
    return identify_dataflow(dataflow.levels, streams, partitions).fingerprint
