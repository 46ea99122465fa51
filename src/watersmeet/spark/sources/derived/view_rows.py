"""The rows of a branch of a view, computed by Spark from the tuples of its stream.

Where a branch leaves rows out, these stay, marked: their event times say how far the stream has come. Nothing
but the event time is computed of them, since a condition may be there to keep an expression from failing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import IN_VIEW, MARK
from watersmeet.query import Branch, Explode, Reading, Step, TableJoin
from watersmeet.query.expression import quote_name
from watersmeet.spark.sources.event_time import ARRIVAL_TIME

_AT, _ELEMENT = "__at", "__element"  # of an array that is exploded


def reading_rows(sources: Mapping[str, DataFrame], reading: Reading) -> DataFrame:
    """What an input reads of a stream: its tuples, or the rows of a branch of a view."""
    if reading.branch is None:
        return sources[reading.stream.name]
    return view_rows(sources, reading.branch)


def view_rows(sources: Mapping[str, DataFrame], branch: Branch) -> DataFrame:
    """The columns of the view; `IN_VIEW`, if the branch leaves anything out, is false where it does.

    `sources` are the tuples of its stream and the rows of its tables, by name.
    """
    frame = sources[branch.stream.name]
    for step in branch.steps:
        frame = _step(frame, step, sources)
    return frame


def view_tuples(sources: Mapping[str, DataFrame], branch: Branch) -> DataFrame:
    """The tuples of the view alone."""
    frame = view_rows(sources, branch)
    if MARK in frame.columns:
        frame = frame.where(f"{MARK} IS NULL").drop(MARK)
    return frame.where(IN_VIEW).drop(IN_VIEW) if IN_VIEW in frame.columns else frame


def _step(frame: DataFrame, step: Step, sources: Mapping[str, DataFrame]) -> DataFrame:
    frame = frame.alias(step.alias)
    for join in step.tables:
        frame = _joined(frame, step.alias, join, sources[join.table.name])
    if step.explode is not None:
        frame = _exploded(frame, step.alias, step.explode)
    marked = [IN_VIEW] if IN_VIEW in frame.columns else []
    if step.filters:
        holds = " AND ".join(f"({expr.sql})" for expr in step.filters)
        mark = (
            f"coalesce(CASE WHEN {IN_VIEW} THEN {holds} END, false)"
            if marked
            else f"coalesce({holds}, false)"
        )
        frame = frame.withColumn(IN_VIEW, F.expr(mark)).alias(step.alias)
        marked = [IN_VIEW]
    selected = []
    for column in step.columns:
        text = column.expr.sql
        if marked and not column.expr.is_column:
            text = f"CASE WHEN {IN_VIEW} THEN {text} END"
        selected.append(f"{text} AS {quote_name(column.name)}")
    kept = [name for name in (ARRIVAL_TIME, MARK, *marked) if name in frame.columns]
    return frame.selectExpr(*selected, *kept)


def _joined(frame: DataFrame, alias: str, join: TableJoin, rows: DataFrame) -> DataFrame:
    """Rows with those of a table in a struct, `join.alias`; an inner join marks those that find none."""
    names = [quote_name(column.name) for column in join.table.columns]
    other = rows.selectExpr(f"struct({', '.join(names)}) AS {quote_name(join.alias)}")
    is_marked = IN_VIEW in frame.columns
    if is_marked:  # what an earlier condition has left out meets no row, and fails no expression
        frame = _emptied(frame).alias(alias)
    frame = frame.join(other, F.expr(join.on.sql), "left")
    if not join.is_left:
        found = f"{quote_name(join.alias)} IS NOT NULL"
        mark = F.expr(f"{IN_VIEW} AND {found}" if is_marked else found)
        frame = frame.withColumn(IN_VIEW, mark)
    return frame.alias(alias)


def _emptied(frame: DataFrame) -> DataFrame:
    """The rows with NULLs in those that are left out, but for their times."""
    selected = []
    for field in frame.schema.fields:
        name = quote_name(field.name)
        kept = field.name in (IN_VIEW, MARK) or field.dataType.typeName().startswith("timestamp")
        selected.append(name if kept else f"CASE WHEN {IN_VIEW} THEN {name} END AS {name}")
    return frame.selectExpr(*selected)


def _exploded(frame: DataFrame, alias: str, explode: Explode) -> DataFrame:
    """A row for each element, in a struct called `explode.alias`; one row, marked, where there is none."""
    is_marked = IN_VIEW in frame.columns
    array = f"CASE WHEN {IN_VIEW} THEN {explode.array.sql} END" if is_marked else explode.array.sql
    frame = frame.selectExpr("*", f"posexplode_outer({array}) AS ({_AT}, {_ELEMENT})")
    others = [name for name in frame.columns if name not in (IN_VIEW, _AT, _ELEMENT)]
    marks = [IN_VIEW] if is_marked else []
    if not explode.is_outer:
        marks.append(f"{_AT} IS NOT NULL")
    selected = [
        *(quote_name(name) for name in others),
        f"named_struct('{explode.name}', {_ELEMENT}) AS {quote_name(explode.alias)}",
        *([f"{' AND '.join(marks)} AS {IN_VIEW}"] if marks else []),
    ]
    return frame.selectExpr(*selected).alias(alias)
