"""What a checkpoint's state holds, read through Spark's own reader of state stores.

Spark reads the last batch that was committed, from the checkpoint's files, beside a run of the query or after
it; nothing there is written. A bucket is looked at in one task, so no more than one is in a worker's memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from watersmeet.errors import ConfigurationError
from watersmeet.kernel.routing.grid import Grid
from watersmeet.plan.state_format import StateIdentity, identity_from_json
from watersmeet.plan.take_over import Progress
from watersmeet.query import BEGINNING
from watersmeet.query.expression import quote_name
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.exchange.labels import bucket_labels
from watersmeet.spark.inspect.bucket_rows import watermark_of
from watersmeet.spark.inspect.look import BUCKET, EVENT_TIME, SUMMARY, SummaryLook, TupleLook
from watersmeet.spark.inspect.sections import Holding, Known, Section, resolve, sections_of
from watersmeet.spark.session.failures import first_line
from watersmeet.spark.stages.state_log import HEAD
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.paths import spark_path

_OURS = "transformWithState"  # how Spark calls the operators that stages are


@dataclass(frozen=True)
class SectionReport:
    """What one bucket keeps in one section."""

    name: str  # of the section, in the state
    section: Section
    bucket: int
    live: int  # rows that something still to come may meet, each counted in one bucket
    copies: int  # live rows that are counted elsewhere
    kept: int  # all rows
    nbytes: int  # in the state store
    oldest: int | None  # event times of live rows
    newest: int | None
    columns: tuple[str, ...]
    top: Mapping[str, Mapping[str, int]]  # live rows by value, of what tuples are joined by


@dataclass(frozen=True)
class _Stage:
    """One stateful stage: its values by bucket, and its heads."""

    number: int
    frame: DataFrame
    heads: Mapping[int, Mapping[str, Any]]  # by bucket

    def sections(self) -> set[str]:
        return {section for head in self.heads.values() for section, *_ in head["chunks"]}


class CheckpointState:
    """The state of the query of a checkpoint, as the last batch left it."""

    def __init__(
        self,
        spark: SparkSession,
        spark_folder: str,
        dataflow: SharedDataflow | None = None,
    ) -> None:
        """`dataflow` is of a query that is routed by levels, or of several that share one."""
        self._spark = spark
        self._folder = spark_folder
        self._path = spark_path(spark_folder)
        self._dataflow = dataflow

    @cached_property
    def identity(self) -> StateIdentity:
        """Of the query that wrote the state; refuses one of another state format."""
        heads = [head for stage in self._stages for head in stage.heads.values()]
        return identity_from_json(json.loads(heads[0]["fingerprint"]))

    @cached_property
    def batch(self) -> int:
        """The last batch that was committed: all is read as it was then."""
        names = Folder(self._spark, f"{self._folder}/commits").names("[0-9]*")
        numbers = [int(name) for name in names if name.isdecimal()]
        if not numbers:
            raise ConfigurationError(f"{self._folder} has no state: no batch of its query has been completed")
        return max(numbers)

    @property
    def watermark(self) -> int | None:
        """How far the query's watermark is; None before the first batch has moved it."""
        found = [watermark_of(snapshot) for snapshot in self.snapshots]
        known = [each for each in found if each is not None and each != BEGINNING]
        return min(known, default=None)

    @property
    def has_copies_of_hot_values(self) -> bool:
        """Whether tuples of frequent values are in several buckets."""
        return any(snapshot.get("hot", {}).get("table") for snapshot in self.snapshots)

    @property
    def snapshots(self) -> list[Mapping[str, Any]]:
        """The few numbers that buckets keep beside their tuples."""
        return [head["snapshot"] for stage in self._stages for head in stage.heads.values()]

    def report(self, top: int) -> list[SectionReport]:
        """What each bucket keeps in each section, and the most frequent values there."""
        return [found for stage in self._stages for found in self._report(stage, top)]

    def _report(self, stage: _Stage, top: int) -> list[SectionReport]:
        sections = self._sections(stage)
        look = SummaryLook(**self._place, schema=_schema(SUMMARY), sections=sections, top=top)
        rows = _by_bucket(stage.frame, look.read, SUMMARY).collect()
        return [_report(sections, row) for row in rows]

    def inputs(self) -> dict[str, DataFrame]:
        """The live tuples of each input: the columns that are kept, the event time, the bucket."""
        if "inputs" not in self.identity.state:
            raise ConfigurationError(
                "tuples are shown and exported of a query by itself: a shared dataflow keeps those of many "
                "queries under names of its own"
            )
        found: dict[str, list[DataFrame]] = {}
        for stage in self._stages:
            kept = {each.name: each for each in self._report(stage, top=0)}
            for name, each in kept.items():
                if each.section.holds in (Holding.TUPLES, Holding.WAITING):
                    tuples = self._tuples(stage, name, each.section, each.columns)
                    found.setdefault(each.section.of, []).append(tuples)
        return {alias: _united(frames) for alias, frames in found.items()}

    def _tuples(self, stage: _Stage, name: str, section: Section, columns: Sequence[str]) -> DataFrame:
        """The live tuples of a section that keeps these columns."""
        shown = self._shown(section, columns)
        types = {EVENT_TIME: "timestamp", BUCKET: "int"} | {each: type_ for each, (_, type_) in shown.items()}
        ordered = {each: types[each] for each in (*shown, *types)}
        schema = ", ".join(f"{quote_name(each)} {type_}" for each, type_ in ordered.items())
        stored = {each: column for each, (column, _) in shown.items()}
        look = TupleLook(**self._place, schema=_schema(schema), name=name, section=section, stored=stored)
        return _by_bucket(stage.frame, look.read, schema)

    def _sections(self, stage: _Stage) -> dict[str, Known]:
        return sections_of(self.identity.state, self._dataflow, stage.sections())

    def _shown(self, section: Section, columns: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Columns of tuples as people know them: where they are, and their types."""
        declared = self._declared(section.of)
        shown = {}
        for name, type_ in declared.items():
            stored = f"{section.qualifier}{name}"
            if stored in columns:
                shown[name] = stored, type_
        types = {text: cls["type"] for cls in self.identity.state.get("classes", ()) for text in cls["equal"]}
        for text, column in section.keys:
            name = text.split(".", 1)[-1].strip("`")
            if column in columns and types.get(text) and name not in shown and column not in shown:
                shown[name if name in declared else text] = column, types[text]
        return shown

    def _declared(self, of: str) -> dict[str, str]:
        """The columns of an input, with their types."""
        named = {item["alias"]: item["columns"] for item in self.identity.state["inputs"]}
        return dict(named.get(of, []))

    @cached_property
    def _place(self) -> dict[str, Any]:
        """Where and when a worker is to look."""
        return {
            "grid": Grid(self.identity.shares if "routing" in self.identity.state else ()),
            "labels": bucket_labels(self.identity.partitions),
            "watermark": BEGINNING if self.watermark is None else self.watermark,
        }

    @cached_property
    def _stages(self) -> list[_Stage]:
        batch = self.batch
        try:
            described = self._spark.read.format("state-metadata").load(self._path)
            found = described.select("operatorId", "operatorName").distinct().collect()
            ours = sorted(row.operatorId for row in found if row.operatorName.startswith(_OURS))
            stages = [self._stage(number, batch) for number in ours]
        except PySparkException as error:
            raise ConfigurationError(
                f"the state in {self._path} cannot be read: {first_line(str(error))}\n"
                "Spark keeps absolute paths with it, so it is read only where the run has made it"
            ) from None
        if not any(stage.heads for stage in stages):
            raise ConfigurationError(
                f"the state in {self._path} is Spark's own: under --routing native it joins by itself"
            )
        return stages

    def _stage(self, number: int, batch: int) -> _Stage:
        reader = self._spark.read.format("statestore").options(operatorId=number, batchId=batch)
        stored = reader.option("stateVarName", "log").load(self._path)
        frame = stored.selectExpr(
            "key.bucket AS bucket", "user_map_key.key AS name", "user_map_value.value AS value"
        )
        heads = frame.where(frame.name == HEAD).collect()
        return _Stage(number, frame, {row.bucket: json.loads(bytes(row.value)) for row in heads})


def read_progress(spark: SparkSession, spark_folder: str) -> Progress:
    """How far the query of a checkpoint has come that is routed by shares."""
    return Progress.of(CheckpointState(spark, spark_folder).snapshots)


def _by_bucket(frame: DataFrame, read: Callable[[pa.Table], pa.Table], schema: str) -> DataFrame:
    """What is read of each bucket's values."""

    def read_one(table: pa.Table) -> pa.Table:  # Spark counts the arguments, and would count `self`
        return read(table)

    return frame.groupBy(BUCKET).applyInArrow(read_one, schema)


def _report(sections: Mapping[str, Known], row: Row) -> SectionReport:
    return SectionReport(
        name=row.section,
        section=resolve(sections[row.section], row.columns),
        bucket=row.bucket,
        live=row.live,
        copies=row.copies,
        kept=row.kept,
        nbytes=row.bytes,
        oldest=row.oldest,
        newest=row.newest,
        columns=tuple(row.columns),
        top=json.loads(row.top),
    )


def _schema(text: str) -> pa.Schema:
    """A schema in Spark's words, as Spark wants it of a worker."""
    parsed = StructType.fromDDL(text)
    assert isinstance(parsed, StructType)
    return to_arrow_schema(parsed, timezone="UTC")


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    first, *others = frames
    for other in others:
        first = first.unionByName(other, allowMissingColumns=True)
    return first
