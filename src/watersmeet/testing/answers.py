"""From the output of the last stage to answers: what Spark SQL does, by the oracle's evaluator."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType, TimestampType

from watersmeet.kernel import ANSWER_END, ANSWER_TS, ENDED, TICK
from watersmeet.oracle.evaluate import Rows, evaluate, evaluate_group
from watersmeet.oracle.oracle import Row, is_instant
from watersmeet.query import BEGINNING, Expr, Query
from watersmeet.query.values import canonical, timestamp_us
from watersmeet.spark.compile.tasks import DistinctTasks
from watersmeet.spark.metrics.metrics import METRICS
from watersmeet.spark.stages.distinct import LEFT_OUT
from watersmeet.testing.cluster import Cluster
from watersmeet.testing.sources import typed_array

_TIMESTAMP = pa.timestamp("us", tz="UTC")


class Combination(NamedTuple):
    """An answer: its tuples by alias, t, and what DISTINCT and aggregates need beside."""

    rows: Rows
    t: int
    end: int | None
    tick: int | None
    has_ended: bool | None  # where it was let out before


class Selected(NamedTuple):
    """A row of the SELECT list, and what DISTINCT needs beside."""

    row: Row
    t: int
    end: int | None
    has_ended: bool | None


def answer_rows(schema: StructType, output: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Complete combinations of a stage whose answers are rows of plain columns, as `schema` has them."""
    found = []
    for batch in output:
        own, position, columns = batch.filter(pc.is_null(batch.column(METRICS))), 0, {}
        for field in schema:
            inside = list(field.dataType) if isinstance(field.dataType, StructType) else [field]
            arrays = []
            for part in inside:
                array = own.column(f"c{position}")
                arrays.append(array.cast(_TIMESTAMP) if isinstance(part.dataType, TimestampType) else array)
                position += 1
            is_struct = isinstance(field.dataType, StructType)
            names = [part.name for part in inside]
            columns[field.name] = pa.StructArray.from_arrays(arrays, names) if is_struct else arrays[0]
        found.append(pa.RecordBatch.from_pydict(columns))
    return found


def combinations(query: Query, batches: Sequence[pa.RecordBatch], time: str = ANSWER_TS) -> list[Combination]:
    """Complete combinations as the oracle has them: event times are whole microseconds."""
    found: list[Combination] = []
    for batch in batches:
        for row in batch.to_pylist():
            rows = {}
            for item in query.inputs:
                values = dict(row.get(item.alias) or {})
                if item.stream.event_time in values:
                    values[item.stream.event_time] = _instant(values[item.stream.event_time])
                rows[item.alias] = values
            facts = row.get(ANSWER_END), _instant(row.get(TICK)), row.get(ENDED)
            found.append(Combination(rows, _instant(row[time]), *facts))
    return found


def select_rows(
    query: Query, found: Sequence[Combination], conditions: Sequence[str] | None = None
) -> list[Selected]:
    """The SELECT list over the combinations that meet the residual conditions."""
    residual = _conditions(query, conditions)
    return [
        Selected(tuple(evaluate(output.expr, rows, t) for output in query.select), t, end, has_ended)
        for rows, t, end, _, has_ended in found
        if all(evaluate(expr, rows, t) is True for expr in residual)
    ]


def _conditions(query: Query, texts: Sequence[str] | None) -> list[Expr]:
    """These conditions, or else the residual ones of the query."""
    return [*query.residual] if texts is None else [Expr(text) for text in texts]


def appearing_rows(selected: Sequence[Selected]) -> list[Row]:
    """The values that appear in a batch, given the new answers in it and what was present before."""
    rows: list[Row] = []
    until: dict[Hashable, int] = {}
    for row, t, end, has_ended in sorted(selected, key=lambda each: (not each.has_ended, each.t)):
        assert end is not None
        value = canonical(row)
        if not has_ended and until.get(value, BEGINNING) < t:
            rows.append(row)
        until[value] = max(end, until.get(value, end))
    return rows


def distinct_values(
    cluster: Cluster, query: Query, distinct: DistinctTasks, selected: Sequence[Selected]
) -> tuple[dict[int, list[Row]], int]:
    """The values that appear, by bucket of the real stage, and how many it left out for want of memory."""
    if not selected:
        return {}, 0
    rows = cluster.run_map(distinct.pack, [values_of(query, selected)])
    stage = distinct.stage
    released = cluster.run_stage(stage.name, stage.processor, stage.schema, rows)
    found = {label: value_rows(query, distinct.unpack(iter(own))) for label, own in released.items()}
    batches = (batch for own in released.values() for batch in own)
    return found, sum(number or 0 for batch in batches for number in batch.column(LEFT_OUT).to_pylist())


def values_of(query: Query, selected: Sequence[Selected]) -> pa.RecordBatch:
    """The rows of a SELECT list as the stage of DISTINCT takes them; there is at least one."""
    columns: dict[str, pa.Array] = {}
    for position, output in enumerate(query.select):
        type_ = output_type(query, output.expr)
        columns[output.name] = typed_array([each.row[position] for each in selected], type_)
    columns[ANSWER_TS] = pa.array([each.t for each in selected], pa.int64()).cast(_TIMESTAMP)
    columns[ANSWER_END] = pa.array([each.end for each in selected], pa.int64())
    if query.joins_delayed:
        columns[ENDED] = pa.array([each.has_ended for each in selected], pa.bool_())
    return pa.RecordBatch.from_pydict(columns)


def value_rows(query: Query, batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Values as the oracle has them."""
    times = [query_time(query, each.expr) for each in query.select]
    return [
        tuple(
            _instant(value) if is_time else value for value, is_time in zip(row.values(), times, strict=True)
        )
        for batch in batches
        for row in batch.to_pylist()
    ]


def group_rows(
    query: Query, found: Sequence[Combination], conditions: Sequence[str] | None = None
) -> list[Row]:
    """The groups of the answers sampled at each tick that meet the residual conditions."""
    aggregate, residual = query.aggregate, _conditions(query, conditions)
    assert aggregate is not None
    groups: dict[Hashable, list[Rows]] = {}
    ticks: dict[Hashable, int] = {}
    for rows, t, _, tick, _ in found:
        assert tick is not None
        if all(evaluate(expr, rows, t) is True for expr in residual):
            key = (tick, canonical([evaluate(expr, rows, tick) for expr in aggregate.group_by]))
            groups.setdefault(key, []).append(rows)
            ticks[key] = tick
    return [
        tuple(evaluate_group(output.expr, group, ticks[key]) for output in query.select)
        for key, group in groups.items()
        if aggregate.having is None or evaluate_group(aggregate.having, group, ticks[key]) is True
    ]


def query_time(query: Query, expr: Expr) -> bool:
    """Whether an expression is an event time or t itself, which the oracle has in microseconds."""
    return is_instant(query, expr)


def output_type(query: Query, expr: Expr) -> str | None:
    """Spark's name of the type of an output, where it is known."""
    if query_time(query, expr):
        return "timestamp"
    if expr.is_column:
        column = query.input(expr.columns[0].alias).stream.column(expr.columns[0].column)
        return column.type if column is not None else None
    return expr.type


def _instant(value: Any) -> Any:
    return timestamp_us(value) if isinstance(value, dt.datetime) else value
