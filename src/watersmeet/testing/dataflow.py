"""A micro-batch through the tasks of a query, or of many in a shared dataflow.

The tasks are those that Spark is given (`spark/compile/tasks.py`). What Spark's own SQL does between them is
done here by the oracle's evaluator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel import KEEP
from watersmeet.oracle.oracle import Row
from watersmeet.query import ANSWER_TIME
from watersmeet.query.shared_dataflow import QueryTail
from watersmeet.spark.compile.tasks import JoinTasks, PackNamedFiles, PackRows, QueryTasks, SendFileNames
from watersmeet.spark.exchange.codec import KIND
from watersmeet.spark.exchange.messages import MESSAGES, UNKNOWN, EndOfInput, FileName
from watersmeet.spark.exchange.unpack import CHUNK
from watersmeet.spark.metrics.metrics import METRICS
from watersmeet.spark.multiquery.answers import SharedAnswers, UnpackReady
from watersmeet.spark.multiquery.levels import LevelTasks, PackFeeds
from watersmeet.spark.multiquery.messages import LEVEL_MESSAGES, Answers, LevelMetrics
from watersmeet.spark.multiquery.stage import shape_names
from watersmeet.testing.answers import answer_rows, combinations, distinct_values, group_rows, select_rows
from watersmeet.testing.cluster import Cluster
from watersmeet.testing.sources import Arrived

LEFT_OUT = "left_out"


@dataclass(frozen=True)
class Output:
    """The answers of a micro-batch by query, and what its tasks counted."""

    answers: Mapping[str, list[Row]]
    metrics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryDataflow:
    """A query by itself; its answers are under the empty name."""

    tasks: QueryTasks

    def run(self, cluster: Cluster, arrived: Arrived, *, is_end: bool) -> Output:
        query, join = self.tasks.query, self.tasks.join
        if isinstance(join, JoinTasks):
            rows = _wire_rows(cluster, join, arrived, is_end=is_end)
            for stage in join.stages:
                rows = cluster.run_stage(stage.name, stage.processor, stage.schema, rows)
            metrics = join.metrics.combined(_texts(rows))
            if join.rows is not None:
                complete = answer_rows(self.tasks.schema, rows)
            else:
                complete = list(self.tasks.unpack(iter(_blobs(rows))))
        else:
            rows = _level_rows(cluster, join, arrived, is_end=is_end)
            metrics = join.metrics.combined(_level_texts(rows))
            complete = list(self.tasks.unpack(iter(_blobs(_answers_of(rows)))))
        found = combinations(query, complete)
        if query.aggregate is not None:
            return Output({"": group_rows(query, found)}, metrics)
        selected = select_rows(query, found)
        if self.tasks.distinct is None:
            return Output({"": [row for row, _, _ in selected]}, metrics)
        values, left_out = distinct_values(cluster, query, self.tasks.distinct, selected)
        return Output({"": values}, {**metrics, LEFT_OUT: left_out})


@dataclass(frozen=True)
class QueriesDataflow:
    """Many queries in one dataflow; answers are by the names of the queries."""

    tasks: LevelTasks
    answers: SharedAnswers

    def run(self, cluster: Cluster, arrived: Arrived, *, is_end: bool) -> Output:
        rows = _level_rows(cluster, self.tasks, arrived, is_end=is_end)
        metrics, blobs = self.tasks.metrics.combined(_level_texts(rows)), _answers_of(rows)
        found: dict[str, list[Row]] = {}
        for shape in shape_names(self.answers.dataflow):
            own = [batch.filter(pc.equal(batch.column("source"), shape)) for batch in blobs]
            for tail in self.answers.endings(shape, frozenset(self.answers.queries)):
                found[tail.query] = self._rows_of(tail, _blobs(own))
        return Output(found, metrics)

    def _rows_of(self, tail: QueryTail, blobs: list[pa.RecordBatch]) -> list[Row]:
        query = self.answers.queries[tail.number]
        if self.answers.is_ready(tail, as_json=False):
            names = tuple(output.name for output in query.select)
            ready = UnpackReady(self.answers.ship, frozenset({tail.number}), names)
            return [
                tuple(row[name] for name in names)
                for batch in ready(iter(blobs))
                for row in batch.to_pylist()
            ]
        unpack, _ = self.answers.unpack_tuples([tail])
        found = combinations(query, list(unpack(iter(blobs))), time=ANSWER_TIME)
        return [row for row, _, _ in select_rows(query, found, tail.conditions)]


def _wire_rows(cluster: Cluster, join: JoinTasks, arrived: Arrived, *, is_end: bool) -> list[pa.RecordBatch]:
    """The rows that reach the first stage."""
    rows: list[pa.RecordBatch] = []
    for task in join.inputs:
        match task:
            case PackRows():
                columns = [(each.name, each.sql, each.type) for each in task.columns]
                rows += cluster.run_map(task.pack, arrived.project(task.stream, [task.alias], columns))
            case PackNamedFiles():
                named = arrived.name_files(task.streams, reports_time=join.reports_time)
                rows += cluster.run_map(task.pack, named)
            case SendFileNames():
                rows += _file_names(task, join, arrived)
    if is_end:
        rows.append(MESSAGES.to_arrow([EndOfInput(label) for label in join.labels]))
    return rows


def _file_names(task: SendFileNames, join: JoinTasks, arrived: Arrived) -> list[pa.RecordBatch]:
    """What Spark SQL sends in place of tuples that the stage is to read."""
    now = arrived.now_us if join.reports_time else UNKNOWN
    return [
        MESSAGES.to_arrow([FileName(label, task.number, path, now) for label in join.labels])
        for path in arrived.files.get(task.stream, ())
    ]


def _level_rows(
    cluster: Cluster, tasks: LevelTasks, arrived: Arrived, *, is_end: bool
) -> list[pa.RecordBatch]:
    """The rows that leave the last level."""
    rows: list[pa.RecordBatch] = []
    for task in tasks.inputs:
        if isinstance(task, PackFeeds):
            keep = [(KEEP, task.keep, "boolean")] if task.keep is not None else []
            names = [task.name, task.stream]
            given = arrived.project(task.stream, names, [*task.columns, *keep])
        else:
            given = arrived.name_files(task.streams, reports_time=tasks.reports_time)
        rows += cluster.run_map(task.pack, given)
    if is_end:
        rows += cluster.run_map(tasks.pack_end, [pa.RecordBatch.from_pydict({"value": ["end"]})])
    for stage in tasks.stages:
        rows = cluster.run_stage(stage.plan.name, stage, LEVEL_MESSAGES.spark_schema, rows)
    return rows


def _answers_of(rows: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Rows (source, chunk), as the compiled dataflow selects them."""
    found = []
    for batch in rows:
        own = batch.filter(pc.equal(batch.column(KIND), Answers.__name__))
        columns = [own.column(LEVEL_MESSAGES.column(Answers, name)) for name in ("shape", "chunk")]
        found.append(pa.RecordBatch.from_arrays(columns, ["source", CHUNK]))
    return found


def _blobs(rows: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [batch.select([CHUNK]) for batch in rows]


def _texts(rows: list[pa.RecordBatch]) -> list[str]:
    """The metrics that buckets report."""
    return [text for batch in rows for text in batch.column(METRICS).drop_null().to_pylist()]


def _level_texts(rows: list[pa.RecordBatch]) -> list[str]:
    messages = (message for batch in rows for message in LEVEL_MESSAGES.from_arrow(batch))
    return [message.text for message in messages if isinstance(message, LevelMetrics)]
