"""The DataFrames of a query's inputs, as rows of the shuffle: wired from the tasks of `plan_inputs.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from watersmeet.query.expression import quote_name
from watersmeet.spark.compile.tasks import JoinTasks, PackNamedFiles, PackRows, SendFileNames
from watersmeet.spark.exchange.gather import NOW_SQL
from watersmeet.spark.exchange.wire import END_OF_INPUT, NAMED, UNKNOWN, WIRE_SCHEMA
from watersmeet.spark.sources.parquet.files import PATH, number_files


@dataclass(frozen=True)
class Inputs:
    """The inputs of one query on their way to its first stage."""

    tasks: JoinTasks
    sources: Mapping[str, DataFrame]
    files: Mapping[str, DataFrame]  # names of the files of some sources
    control: DataFrame | None

    def wire(self) -> DataFrame:
        """The wire rows of all inputs."""
        parts: list[DataFrame] = []
        named: list[DataFrame] = []
        for task in self.tasks.inputs:
            match task:
                case PackRows():
                    parts.append(self._packed(task))
                case PackNamedFiles():
                    parts.append(self._packed_files(task))
                case SendFileNames():
                    named.append(self._named(task))
        ends = (
            [] if self.control is None else [self._control_rows(self.control, {"input": f"{END_OF_INPUT}"})]
        )
        if named:  # a few names are one small task, not one for each input; one bucket needs no exchange then
            parts.append(reduce(DataFrame.unionAll, [*named, *ends]).coalesce(1))
        else:
            parts += ends
        return reduce(DataFrame.unionAll, parts)

    def _packed(self, task: PackRows) -> DataFrame:
        source = self.sources[task.stream].alias(task.alias)
        projected = source.selectExpr(*(f"{each.sql} AS {quote_name(each.name)}" for each in task.columns))
        return projected.mapInArrow(task.pack, WIRE_SCHEMA)

    def _packed_files(self, task: PackNamedFiles) -> DataFrame:
        named = [(number, self.files[stream]) for number, stream in task.streams]
        rows = number_files(named, self.tasks.partitions, tells_time=self.tasks.tells_time)
        return rows.mapInArrow(task.pack, WIRE_SCHEMA)

    def _named(self, task: SendFileNames) -> DataFrame:
        """A row for every bucket and file."""
        known = {"input": f"{task.number}", "rows": f"{NAMED}L", "chunk": f"CAST({PATH} AS BINARY)"}
        if self.tasks.tells_time:
            known["now_us"] = NOW_SQL
        return self._control_rows(self.files[task.stream], known)

    def _control_rows(self, frame: DataFrame, known: Mapping[str, str]) -> DataFrame:
        """A wire row of these expressions for every bucket and row; all in Spark, no Python."""
        texts = {
            "bucket": f"explode(array({', '.join(map(str, self.tasks.labels))}))",
            "now_us": f"{UNKNOWN}L",
            "max_ts": f"{UNKNOWN}L",
            **known,
        }
        zeros = {"binary": "X''", "bigint": "0L"}
        return frame.selectExpr(
            *(
                f"{texts.get(field.name, zeros.get(field.dataType.simpleString()))} AS {field.name}"
                for field in WIRE_SCHEMA
            )
        )
