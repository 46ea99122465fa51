"""Random sets of queries over the same streams, and the micro-batches that arrive for all of them.

`query_sets()` is the entry. Streams have several columns of each type, so that queries join them by different
attributes, through casts and functions too; the queries' shapes, windows and times of arrival are drawn as
for single queries (`tests/strategies.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.strategies import ALIASES, TIME_WINDOWS, class_members, microbatches, window
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.plan.multiquery.plan_dataflow import Registered
from watersmeet.query import (
    NEVER,
    Attribute,
    AttributeClass,
    Column,
    ColumnRef,
    Expr,
    Input,
    JoinGraph,
    Output,
    Query,
    Stream,
    column_expr,
    range_us,
)

COLUMNS = (
    Column("b0", "bigint"),
    Column("b1", "bigint"),
    Column("b2", "bigint"),
    Column("i0", "int"),
    Column("t0", "string"),
    Column("t1", "string"),
    Column("d0", "double"),
    Column("f0", "boolean"),
    Column("day", "date"),
    Column("v", "bigint"),
    Column("ts", "timestamp"),
)
ATTRIBUTES = {
    "bigint": ("b0", "b1", "b2", "i0"),
    "string": ("t0", "t1", "lower(t0)"),
    "double": ("d0", "i0"),
}
FAVOURED = 5  # classes of that query: with many, most tuples have the most frequent values
SPANNED = 4  # inputs of the query for which tuples are drawn: few tuples a stream


@dataclass(frozen=True)
class QuerySetCase:
    """Queries, each there in the batches [since, until), and all that arrives."""

    streams: tuple[Stream, ...]
    queries: tuple[Registered, ...]
    batches: tuple[MicroBatch, ...]


@st.composite
def query_sets(draw: st.DrawFn, max_queries: int = 4, max_inputs: int = 4) -> QuerySetCase:
    """A few queries that come and go over two or three streams."""
    streams = tuple(
        Stream(f"s{n}", COLUMNS, "ts", lateness_us=draw(st.sampled_from([0, 1, 5, 10])))
        for n in range(draw(st.integers(2, 3)))
    )
    batches = draw(microbatches(_spanning(streams)))
    count = draw(st.integers(1, max_queries))
    queries = []
    for number in range(count):
        since = draw(st.sampled_from([0, 0, *range(len(batches))]))
        until = draw(st.sampled_from([NEVER, NEVER, *range(since + 1, len(batches) + 1)]))
        query = draw(joinable_queries(streams, max_inputs))
        queries.append(Registered(f"q{number}", number, query, since, until))
    if draw(st.booleans()):
        twin = queries[0]
        queries.append(Registered("twin", count, draw(_reworded(twin.query)), twin.since, NEVER))
    return QuerySetCase(streams, tuple(queries), tuple(batches))


def _spanning(streams: Sequence[Stream]) -> Query:
    """A query that reads every stream, to draw tuples for."""
    aliases = tuple(ALIASES[:SPANNED])
    inputs = tuple(Input(alias, streams[n % len(streams)], range_us(10)) for n, alias in enumerate(aliases))
    cls = AttributeClass(tuple(Attribute(alias, column_expr(alias, "b0")) for alias in aliases[:2]))
    return Query(inputs, JoinGraph(aliases, (cls,) * FAVOURED), ())


@st.composite
def joinable_queries(draw: st.DrawFn, streams: Sequence[Stream], max_inputs: int = 4) -> Query:
    """A plain query of time windows over some of the streams, some of them more than once."""
    count = draw(st.integers(1, max_inputs))
    aliases = draw(st.permutations(ALIASES))[:count]
    sizes = draw(st.sampled_from([TIME_WINDOWS, TIME_WINDOWS[:1]]))
    inputs = [
        Input(alias, draw(st.sampled_from(list(streams))), draw(window(sizes)), draw(_filters(alias)))
        for alias in aliases
    ]
    classes = []
    for members in draw(class_members(count)):
        type_ = draw(st.sampled_from(["bigint", "bigint", "string", "double"]))
        sides = [draw(_attribute(aliases[n], type_)) for n in members]
        classes.append(AttributeClass(tuple(sides), type_))
    graph = JoinGraph(tuple(aliases), tuple(classes))
    return Query(tuple(inputs), graph, draw(_select(aliases)), residual=draw(_residual(aliases)))


@st.composite
def _attribute(draw: st.DrawFn, alias: str, type_: str) -> Attribute:
    text = draw(st.sampled_from(ATTRIBUTES[type_]))
    if not text.endswith(")"):
        declared = next(column.type for column in COLUMNS if column.name == text)
        return Attribute(alias, column_expr(alias, text, declared))
    return Attribute(alias, Expr(f"lower({alias}.t0)", (ColumnRef(alias, "t0"),), "string"))


@st.composite
def _filters(draw: st.DrawFn, alias: str) -> tuple[Expr, ...]:
    texts = {
        f"{alias}.v >= 1": "v",
        f"3 >= {alias}.v": "v",
        f"{alias}.v <> 2": "v",
        f"{alias}.b0 = 1": "b0",
        f"{alias}.t1 > 'w'": "t1",
        f"{alias}.f0": "f0",
        f"{alias}.v + 1 > 2": "v",
        f"{alias}.d0 < 1.0": "d0",
        f"{alias}.v BETWEEN 0 AND 4": "v",
        f"{alias}.day > DATE '1999-12-31'": "day",
        f"{alias}.ts <> TIMESTAMP '1970-01-01 00:00:00.000005Z'": "ts",
        f"{alias}.b1 < {alias}.b2": "b1 b2",
    }
    if draw(st.integers(0, 2)):
        return ()
    text = draw(st.sampled_from(sorted(texts)))
    columns = tuple(ColumnRef(alias, name) for name in texts[text].split())
    return (Expr(text, columns, "boolean"),)


@st.composite
def _residual(draw: st.DrawFn, aliases: Sequence[str]) -> tuple[Expr, ...]:
    first, last = aliases[0], aliases[-1]
    if first == last or draw(st.integers(0, 2)):
        return ()
    columns = (ColumnRef(first, "v"), ColumnRef(last, "v"))
    text = draw(st.sampled_from([f"{first}.v <= {last}.v", f"{first}.v + {last}.v > 3"]))
    return (Expr(text, columns, "boolean"),)


@st.composite
def _select(draw: st.DrawFn, aliases: Sequence[str]) -> tuple[Output, ...]:
    outputs = [Output(f"{alias}_v", column_expr(alias, "v", "bigint")) for alias in aliases]
    more = draw(st.lists(st.tuples(st.sampled_from(aliases), st.sampled_from(COLUMNS)), max_size=2))
    outputs += [Output(f"more_{n}", column_expr(alias, c.name, c.type)) for n, (alias, c) in enumerate(more)]
    if draw(st.integers(0, 4)) == 0:
        plus = Expr(f"{aliases[0]}.v + 1", (ColumnRef(aliases[0], "v"),), "bigint")
        outputs.append(Output("plus", plus))
    return (*outputs, Output("answer_time", Expr("answer_time", uses_answer_time=True)))


@st.composite
def _reworded(draw: st.DrawFn, query: Query) -> Query:
    """The same joins under other aliases, in another order, without conditions."""
    renamed = dict(zip(query.graph.aliases, draw(st.permutations("uvwxyz")), strict=False))
    return reworded(query, renamed, draw(st.permutations(range(len(query.inputs)))))


def reworded(query: Query, renamed: dict[str, str], order: Sequence[int]) -> Query:
    """A query's joins with its aliases renamed and its inputs in another order, answering each `v`."""

    def rename(side: Attribute) -> Attribute:
        (ref,) = side.expr.columns
        new = renamed[side.alias]
        sql = side.expr.sql.replace(f"{side.alias}.{ref.column}", f"{new}.{ref.column}")
        return Attribute(new, Expr(sql, (ColumnRef(new, ref.column),), side.expr.type))

    inputs = [
        Input(renamed[item.alias], item.stream, item.window) for item in (query.inputs[n] for n in order)
    ]
    classes = [
        AttributeClass(tuple(rename(side) for side in reversed(cls.attributes)), cls.type)
        for cls in reversed(query.graph.classes)
    ]
    select = tuple(Output(f"{item.alias}_v", column_expr(item.alias, "v", "bigint")) for item in inputs)
    return Query(tuple(inputs), JoinGraph(tuple(item.alias for item in inputs), tuple(classes)), select)
