"""What a view makes of its streams' tuples, naively: one tuple at a time, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from watersmeet.oracle.evaluate import Rows, evaluate
from watersmeet.query import Branch, Step, TableJoin

Row = Mapping[str, Any]  # values by column


def branch_rows(branch: Branch, row: Row) -> list[Row]:
    """The tuples of the view that a branch makes of one tuple of its stream."""
    rows = [row]
    for step in branch.steps:
        rows = [made for each in rows for made in _step(step, each)]
    return rows


def _step(step: Step, row: Row) -> Iterator[Row]:
    for known in _exploded(step, _joined(step, row)):
        if all(evaluate(condition, known) is True for condition in step.filters):
            yield {column.name: evaluate(column.expr, known) for column in step.columns}


def _joined(step: Step, row: Row) -> list[Rows]:
    """The names a step may use, once for each combination of rows of its tables."""
    found: list[Rows] = [{step.alias: row}]
    for join in step.tables:
        found = [{**known, join.alias: other} for known in found for other in _partners(join, known)]
    return found


def _partners(join: TableJoin, known: Rows) -> list[Row]:
    """The rows of a table that meet its condition; one of NULLs where a left join finds none."""
    assert join.table.table is not None
    names = [column.name for column in join.table.columns]
    rows: list[Row] = [dict(zip(names, values, strict=True)) for values in join.table.table.rows]
    met = [row for row in rows if evaluate(join.on, {**known, join.alias: row}) is True]
    return met or ([dict.fromkeys(names)] if join.is_left else [])


def _exploded(step: Step, found: list[Rows]) -> list[Rows]:
    """The same, once for each element of what a step explodes."""
    explode = step.explode
    if explode is None:
        return found
    longer: list[Rows] = []
    for known in found:
        elements = evaluate(explode.array, known) or ([None] if explode.is_outer else [])
        longer += [{**known, explode.alias: {explode.name: element}} for element in elements]
    return longer
