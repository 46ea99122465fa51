"""The DataFrames of a query's inputs, as rows of the shuffle: wired from the tasks of `plan_inputs.py`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from watersmeet.query.expression import quote_name
from watersmeet.spark.compile.tasks import InputTask, JoinTasks, PackNamedFiles, PackRows, SendFileNames
from watersmeet.spark.exchange.collect import NOW_SQL
from watersmeet.spark.exchange.file_input import PATH, number_files
from watersmeet.spark.exchange.labels import every_bucket_sql
from watersmeet.spark.exchange.messages import MESSAGES, EndOfInput, FileName, Message
from watersmeet.spark.sources.derived.view_rows import reading_rows
from watersmeet.spark.sources.parquet.files import FileNames


@dataclass(frozen=True)
class Inputs:
    """The inputs of one query on their way to its first stage."""

    tasks: JoinTasks
    sources: Mapping[str, DataFrame]
    files: Mapping[str, FileNames]  # names of the files of some sources
    control: DataFrame | None

    def wire(self) -> DataFrame:
        """The messages of all inputs, as rows of the shuffle.

        Sources stand in the order of FROM, the control stream last: Spark's checkpoint knows them by it.
        """
        frames = [(isinstance(task, SendFileNames), self._messages(task)) for task in self.tasks.inputs]
        if self.control is not None:
            after_names = frames[-1][0]
            frames.append((after_names, self._for_all_buckets(self.control, EndOfInput)))
        parts: list[DataFrame] = []
        for are_names, group in itertools.groupby(frames, key=lambda pair: pair[0]):
            together = reduce(DataFrame.unionAll, [frame for _, frame in group])
            # A few names are one small task, not one for each input; one bucket needs no exchange then.
            parts.append(together.coalesce(1) if are_names else together)
        return reduce(DataFrame.unionAll, parts)

    def _messages(self, task: InputTask) -> DataFrame:
        match task:
            case PackRows():
                return self._packed(task)
            case PackNamedFiles():
                return self._packed_files(task)
            case SendFileNames():
                return self._named(task)

    def _packed(self, task: PackRows) -> DataFrame:
        source = reading_rows(self.sources, task.reading).alias(task.alias)
        projected = source.selectExpr(*(f"{each.sql} AS {quote_name(each.name)}" for each in task.columns))
        return projected.mapInArrow(task.pack, MESSAGES.spark_schema)

    def _packed_files(self, task: PackNamedFiles) -> DataFrame:
        named = [(number, self.files[stream].names) for number, stream in task.streams]
        rows = number_files(named, self.tasks.partitions, reports_time=self.tasks.reports_time)
        return rows.mapInArrow(task.pack, MESSAGES.spark_schema)

    def _named(self, task: SendFileNames) -> DataFrame:
        """A message for every bucket and file."""
        known = {"input": f"{task.number}L", "path": PATH}
        if self.tasks.reports_time:
            known["now_us"] = NOW_SQL
        return self._for_all_buckets(self.files[task.stream].names, FileName, **known)

    def _for_all_buckets(self, frame: DataFrame, kind: type[Message], **known: str) -> DataFrame:
        """A message of these expressions for every bucket and row; all in Spark, no Python."""
        bucket = every_bucket_sql(self.tasks.labels)
        return frame.selectExpr(*MESSAGES.to_sql(kind, bucket=bucket, **known))
