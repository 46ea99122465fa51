"""What a query asks of the results of its last join: tests, conditions left to Spark, and its SELECT list."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.plan.multiquery.exact_tests import Side, exact_tests
from watersmeet.plan.multiquery.slots import Slotted
from watersmeet.query import ANSWER_TIME, NEVER, ColumnRef, Expr, Query
from watersmeet.query.shared_dataflow import Hold, QueryTail, Test

Needed = frozenset[tuple[int, str]]  # columns of inputs, each input by its position in FROM


@dataclass(frozen=True)
class Registered:
    """A query of a shared dataflow, with its name, its number (never reused), and its micro-batches."""

    name: str
    number: int
    query: Query
    since: int = 0
    until: int = NEVER


def end_query(
    registered: Registered, slotted: Slotted, join: str, streams: tuple[str, ...]
) -> tuple[QueryTail, Needed]:
    """The tail of a query that ends at a join, and the columns it needs; `streams` gives their order."""
    query = registered.query
    tests, left = _sort_conditions(slotted)
    outputs = _bare_outputs(slotted)
    has_values = query.distinct and outputs is not None and not left
    needed = set(_tested(slotted, tests))
    payload: set[tuple[int, str]] = set()
    if left or outputs is None:
        exprs = [*left, *query.selected]
        payload = {_column(slotted, ref) for expr in exprs for ref in expr.columns}
    elif outputs:
        needed |= {_column(slotted, ref) for output in query.select for ref in output.expr.columns}
    read = {stream.name for stream in query.streams}
    tail = QueryTail(
        query=registered.name,
        number=registered.number,
        join=join,
        streams=tuple(stream for stream in streams if stream in read),
        slots=tuple(zip(query.graph.aliases, slotted.slots, strict=True)),
        tests=tests,
        conditions=tuple(expr.sql for expr in left),
        outputs=outputs,
        payload=tuple(sorted(slotted.qualified(*column) for column in payload)),
        hold=hold_of(query) if has_values or not query.distinct else _repeating(query, left),
        has_values=has_values,
        since=registered.since,
        until=registered.until,
    )
    return tail, frozenset(needed | payload)


def takes_level(slotted: Slotted) -> bool:
    """Whether distinct values of a query can be told apart in a level of the dataflow, after its joins."""
    return slotted.query.distinct and _bare_outputs(slotted) is not None and not _sort_conditions(slotted)[1]


def _repeating(query: Query, left: tuple[Expr, ...]) -> Hold:
    """What answers wait for whose distinct values Spark computes, batch by batch."""
    return Hold(repeats=True, by_time=any(expr.uses_answer_time for expr in (*left, *query.selected)))


def hold_of(query: Query) -> Hold | None:
    """What the answers of a query wait for: those that DISTINCT or aggregates need the lifetimes of."""
    if query.aggregate is not None:
        return Hold(query.aggregate.emit_every_us, query.aggregate.before_us)
    return Hold() if query.distinct else None


def _sort_conditions(slotted: Slotted) -> tuple[tuple[Test, ...], tuple[Expr, ...]]:
    """The conditions that are exact tests, in an order that does not depend on the text, and the others."""
    positions = {alias: n for n, alias in enumerate(slotted.query.graph.aliases)}

    def resolve(alias: str, column: str) -> Side | None:
        declared = (
            slotted.query.inputs[positions[alias]].stream.column(column) if alias in positions else None
        )
        if declared is None:
            return None
        return slotted.qualified(positions[alias], declared.name), declared.type

    tests: set[Test] = set()
    left = []
    for expr in (*(each for item in slotted.query.inputs for each in item.filters), *slotted.query.residual):
        found = exact_tests(expr, resolve)
        if found is None:
            left.append(expr)
        else:
            tests |= set(found)
    ordered = sorted(tests, key=lambda test: (test.column, test.op, test.other or "", repr(test.constant)))
    return tuple(ordered), tuple(left)


def _tested(slotted: Slotted, tests: tuple[Test, ...]) -> Needed:
    wanted = {name for test in tests for name in (test.column, test.other) if name}
    return frozenset(
        (n, column.name)
        for n, item in enumerate(slotted.query.inputs)
        for column in item.stream.columns
        if wanted and slotted.qualified(n, column.name) in wanted
    )


def _bare_outputs(slotted: Slotted) -> tuple[tuple[str, str], ...] | None:
    """The SELECT list as names of columns, where it has nothing else, and nothing is grouped."""
    if slotted.query.aggregate is not None:
        return None
    outputs = []
    for output in slotted.query.select:
        if output.expr.sql == ANSWER_TIME and output.expr.uses_answer_time:
            outputs.append((output.name, ANSWER_TIME))
        elif output.expr.is_column:
            outputs.append((output.name, slotted.qualified(*_column(slotted, output.expr.columns[0]))))
        else:
            return None
    return tuple(outputs)


def _column(slotted: Slotted, ref: ColumnRef) -> tuple[int, str]:
    position = slotted.query.graph.aliases.index(ref.alias)
    declared = slotted.query.inputs[position].stream.column(ref.column)
    return position, declared.name if declared else ref.column
