"""Feeds oracle tuples to the kernel: expressions are evaluated naively here, as Spark does in the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from tests.strategies import to_arrow
from watersmeet.kernel import ANSWER_TS, KEEP, TICK, TS, Bucket, Punctuation, Tuning, lay_out
from watersmeet.oracle.evaluate import evaluate
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Input, Query
from watersmeet.query.arrow_types import arrow_type

# Thresholds that the few tuples of a generated case reach.
SMALL = Tuning(
    narrow_rows=2,
    least_ended=2,
    trim_rows=1,
    cell_rows=4,
    review_indexes_every=3,
    max_slices_per_append=4,
    min_rows_per_slice=2,
    max_rows_per_slice=8,
)


def chunk(query: Query, item: Input, tuples: Sequence[Tuple]) -> pa.RecordBatch:
    """A chunk of one input; a ROWS input brings every column and says which tuples its filters keep."""
    layout = next(one for one in lay_out(query).inputs if one.alias == item.alias)
    rows = [{item.alias: {**t.values, item.stream.event_time: t.ts}} for t in tuples]
    keep = [all(evaluate(expr, row) is True for expr in item.filters) for row in rows]
    if not item.window.counts_rows:
        tuples = [t for t, kept in zip(tuples, keep, strict=True) if kept]
        rows = [row for row, kept in zip(rows, keep, strict=True) if kept]
    columns = {name: to_arrow(item.stream, tuples)[name] for name in to_arrow(item.stream, []).column_names}
    columns[TS] = pa.array([t.ts for t in tuples], pa.int64())
    for cls, name in layout.keys:
        attribute = query.graph.classes[cls].of(item.alias)
        assert attribute is not None
        values = [evaluate(attribute.expr, row) for row in rows]
        columns[name] = pa.array(values, arrow_type(query.graph.classes[cls].type or "string"))
    if item.window.counts_rows:
        columns[KEEP] = pa.array(keep, pa.bool_())
    return pa.table(columns).combine_chunks().to_batches()[0] if tuples else _empty(columns)


def _empty(columns: dict[str, Any]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array([], column.type) for name, column in columns.items()})


def observed_max(query: Query, batch: MicroBatch) -> dict[str, int]:
    """The largest event time of each stream in a batch, filtered tuples too: progress is the stream's."""
    return {s.name: max(t.ts for t in batch[s.name]) for s in query.streams if batch.get(s.name)}


def feed(bucket: Bucket, batch: MicroBatch | None, *, flush: bool = False) -> list[pa.Table]:
    """One step of a bucket over a micro-batch; None is a step without tuples."""
    query, batch = bucket.query, batch or {}
    marks = Punctuation(observed_max(query, batch), is_end=flush)
    new = {item.alias: chunk(query, item, batch.get(item.stream.name, ())) for item in query.inputs}
    return list(bucket.step({alias: one for alias, one in new.items() if one.num_rows}, marks))


def combinations(query: Query, answers: Iterable[pa.Table]) -> list[tuple[dict[str, Any], int, int | None]]:
    """Complete combinations as (rows by alias, t, tick of a sampled one)."""
    found = []
    for table in answers:
        for values in _as_python(query, table):
            rows: dict[str, dict[str, Any]] = {item.alias: {} for item in query.inputs}
            for name, value in values.items():
                if "." in name:
                    alias, column = name.split(".", 1)
                    rows[alias][column] = value
            found.append((rows, values[ANSWER_TS], values.get(TICK)))
    return found


def output_rows(query: Query, answers: Iterable[pa.Table]) -> list[tuple[Any, ...]]:
    """The SELECT list over complete combinations, residual conditions applied."""
    return [
        tuple(evaluate(output.expr, rows, t) for output in query.select)
        for rows, t, _ in combinations(query, answers)
        if all(evaluate(expr, rows, t) is True for expr in query.residual)
    ]


def _as_python(query: Query, table: pa.Table) -> list[dict[str, Any]]:
    """Event times as the oracle has them: whole microseconds."""
    for item in query.inputs:
        name = f"{item.alias}.{item.stream.event_time}"
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, table[name].cast(pa.int64()))
    return list(table.to_pylist())
