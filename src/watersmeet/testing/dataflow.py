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
from watersmeet.spark.multiquery.answers import AnswerDecoder, UnpackReady
from watersmeet.spark.multiquery.levels import LevelTasks, PackFeeds
from watersmeet.spark.multiquery.messages import LEVEL_MESSAGES, Answers, LevelMetrics
from watersmeet.spark.multiquery.stage import template_names
from watersmeet.testing.answers import (
    answer_rows,
    appearing_rows,
    combinations,
    distinct_values,
    group_rows,
    select_rows,
)
from watersmeet.testing.cluster import Cluster
from watersmeet.testing.sources import Arrived, Projected

LEFT_OUT = "left_out"


Rows = list[Row]
Batches = list[pa.RecordBatch]


@dataclass(frozen=True)
class Output:
    """The answers of a micro-batch by query and bucket, and what its tasks counted."""

    by_bucket: Mapping[str, Mapping[int, Rows]]
    metrics: Mapping[str, int] = field(default_factory=dict)

    @property
    def answers(self) -> dict[str, Rows]:
        """The answers by query."""
        return {
            name: [row for rows in buckets.values() for row in rows]
            for name, buckets in self.by_bucket.items()
        }


@dataclass(frozen=True)
class QueryDataflow:
    """A query by itself; its answers are under the empty name."""

    tasks: QueryTasks

    def run(self, cluster: Cluster, arrived: Arrived, *, is_end: bool) -> Output:
        query = self.tasks.query
        complete, metrics = self._join(cluster, arrived, is_end=is_end)
        found = {label: combinations(query, own) for label, own in complete.items()}
        if query.aggregate is not None:  # Spark's own aggregation follows, which shuffles once more
            return Output(
                {"": {0: group_rows(query, [each for own in found.values() for each in own])}}, metrics
            )
        selected = {label: select_rows(query, own) for label, own in found.items()}
        if self.tasks.distinct is None:
            return Output(
                {"": {label: [each.row for each in own] for label, own in selected.items()}}, metrics
            )
        every = [each for own in selected.values() for each in own]
        values, left_out = distinct_values(cluster, query, self.tasks.distinct, every)
        return Output({"": values}, {**metrics, LEFT_OUT: left_out})

    def _join(
        self, cluster: Cluster, arrived: Arrived, *, is_end: bool
    ) -> tuple[dict[int, Batches], Mapping[str, int]]:
        """Complete combinations by bucket."""
        join = self.tasks.join
        if not isinstance(join, JoinTasks):
            rows = _level_rows(cluster, join, arrived, is_end=is_end)
            unpacked = {
                label: list(self.tasks.unpack(iter(_blobs(_answers_of(own))))) for label, own in rows.items()
            }
            return unpacked, join.metrics.combined(_level_texts(_flat(rows)))
        given, rows = _wire_rows(cluster, join, arrived, is_end=is_end), {}
        for stage in join.stages:
            rows = cluster.run_stage(stage.name, stage.processor, stage.schema, given)
            given = _flat(rows)
        if join.rows is not None:
            complete = {label: answer_rows(self.tasks.schema, own) for label, own in rows.items()}
        else:
            complete = {label: list(self.tasks.unpack(iter(_blobs(own)))) for label, own in rows.items()}
        return complete, join.metrics.combined(_texts(given))


@dataclass(frozen=True)
class QueriesDataflow:
    """Many queries in one dataflow; answers are by the names of the queries."""

    tasks: LevelTasks
    answers: AnswerDecoder

    def run(self, cluster: Cluster, arrived: Arrived, *, is_end: bool) -> Output:
        rows = _level_rows(cluster, self.tasks, arrived, is_end=is_end)
        metrics = self.tasks.metrics.combined(_level_texts(_flat(rows)))
        blobs = {label: _answers_of(own) for label, own in rows.items()}
        found: dict[str, dict[int, Rows]] = {}
        for template in template_names(self.answers.dataflow):
            own = {
                label: [batch.filter(pc.equal(batch.column("source"), template)) for batch in batches]
                for label, batches in blobs.items()
            }
            for tail in self.answers.tails(template, frozenset(self.answers.queries)):
                if tail.hold is not None:  # groups are of all buckets together
                    own = {0: [batch for part in own.values() for batch in part]}
                found[tail.query] = {label: self._rows_of(tail, _blobs(part)) for label, part in own.items()}
        return Output(found, metrics)

    def _rows_of(self, tail: QueryTail, blobs: Batches) -> Rows:
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
        if query.aggregate is not None:
            return group_rows(query, found, tail.conditions)
        selected = select_rows(query, found, tail.conditions)
        if tail.hold is not None and tail.hold.repeats:
            return appearing_rows(selected)
        return [each.row for each in selected]


def _wire_rows(cluster: Cluster, join: JoinTasks, arrived: Arrived, *, is_end: bool) -> Batches:
    """The rows that reach the first stage."""
    rows: Batches = []
    for task in join.inputs:
        match task:
            case PackRows():
                columns = [(each.name, each.sql, each.type) for each in task.columns]
                rows += cluster.run_map(task.pack, _project(task, arrived, columns))
            case PackNamedFiles():
                named = arrived.name_files(task.streams, reports_time=join.reports_time)
                rows += cluster.run_map(task.pack, named)
            case SendFileNames():
                rows += _file_names(task, join, arrived)
    if is_end:
        rows.append(MESSAGES.to_arrow([EndOfInput(label) for label in join.labels]))
    return rows


def _project(task: PackRows, arrived: Arrived, columns: list[Projected]) -> Batches:
    reading = task.reading
    return arrived.project(reading.stream.name, [task.alias], columns, reading.branch)


def _file_names(task: SendFileNames, join: JoinTasks, arrived: Arrived) -> Batches:
    """What Spark SQL sends in place of tuples that the stage is to read."""
    now = UNKNOWN if arrived.now_us is None or not join.reports_time else arrived.now_us
    return [
        MESSAGES.to_arrow([FileName(label, task.number, path, now) for label in join.labels])
        for path in arrived.files.get(task.stream, ())
    ]


def _level_rows(cluster: Cluster, tasks: LevelTasks, arrived: Arrived, *, is_end: bool) -> dict[int, Batches]:
    """The rows that leave the last level, by bucket."""
    given: Batches = []
    for task in tasks.inputs:
        if isinstance(task, PackFeeds):
            keep = [(KEEP, task.keep, "boolean")] if task.keep is not None else []
            names, of = [task.alias, task.stream], task.reading
            read = arrived.project(of.stream.name, names, [*task.columns, *keep], of.branch)
        else:
            read = arrived.name_files(task.streams, reports_time=tasks.reports_time)
        given += cluster.run_map(task.pack, read)
    if is_end:
        given.append(LEVEL_MESSAGES.to_arrow([EndOfInput(label) for label in tasks.labels]))
    rows: dict[int, Batches] = {}
    for stage in tasks.stages:
        name = f"level {stage.plan.level}"  # as Spark's state is found by the stage, whatever the queries are
        rows = cluster.run_stage(name, stage, LEVEL_MESSAGES.spark_schema, given)
        given = _flat(rows)
    return rows


def _flat(rows: Mapping[int, Batches]) -> Batches:
    """The rows of all buckets."""
    return [batch for own in rows.values() for batch in own]


def _answers_of(rows: Batches) -> Batches:
    """Rows (source, chunk), as the compiled dataflow selects them."""
    found = []
    for batch in rows:
        own = batch.filter(pc.equal(batch.column(KIND), Answers.__name__))
        columns = [own.column(LEVEL_MESSAGES.column(Answers, name)) for name in ("template", "chunk")]
        found.append(pa.RecordBatch.from_arrays(columns, ["source", CHUNK]))
    return found


def _blobs(rows: Batches) -> Batches:
    return [batch.select([CHUNK]) for batch in rows]


def _texts(rows: Batches) -> list[str]:
    """The metrics that buckets report."""
    return [text for batch in rows for text in batch.column(METRICS).drop_null().to_pylist()]


def _level_texts(rows: Batches) -> list[str]:
    messages = (message for batch in rows for message in LEVEL_MESSAGES.from_arrow(batch))
    return [message.text for message in messages if isinstance(message, LevelMetrics)]
