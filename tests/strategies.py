"""Random queries and random micro-batches, shared by the oracle's, the kernel's and Spark's property tests.

`cases()` is the entry: it draws a bound query and a sequence of micro-batches for it. Windows and event times
are small, so that every tuple meets some others and outlives some. With more inputs come fewer tuples, closer
in time: the worst case stays a few thousand answers, yet answers stay common.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations, pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import (
    UNBOUNDED,
    WINDOW_KINDS,
    Aggregate,
    Attribute,
    AttributeClass,
    Column,
    ColumnRef,
    Expr,
    Input,
    JoinGraph,
    Output,
    PartitionRowsWindow,
    Query,
    RangeWindow,
    Stream,
    TumbleWindow,
    UnboundedWindow,
    Window,
    column_expr,
    last_of_each,
    range_us,
    tumble_us,
)
from watersmeet.query.arrow_types import arrow_type
from watersmeet.query.values import canonical

ALIASES = "abcdef"
MAX_TUPLES = {1: 14, 2: 12, 3: 9, 4: 6, 5: 5, 6: 4}  # per stream, by number of inputs
SPAN_US = {1: 60, 2: 60, 3: 50, 4: 36, 5: 20, 6: 12}  # of event times, by number of inputs
SIZES_US = (1, 3, 7, 10, 15, 20, 30)
KINDS = ("plain", "distinct", "aggregate")
ALL_WINDOWS = tuple(kind for kind in WINDOW_KINDS if kind is not PartitionRowsWindow)
TIME_WINDOWS = (RangeWindow, TumbleWindow, UnboundedWindow)
ORIGINS_US = (0, -30, 1_700_000_000_000_000)  # before the epoch, floor and truncation differ

_NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)

# Few values each, so that keys meet; the first is the most frequent.
KEY_DOMAINS: Mapping[str, Sequence[Any]] = {
    "bigint": (1, 2, 2**53 + 1),
    "int": (1, 2, -1),
    "string": ("x", "y", "", "é"),
    "double": (0.0, -0.0, float("nan"), 1.5),
    "boolean": (True, False),
    "date": (dt.date(2024, 2, 29), dt.date(1969, 12, 31)),
    "decimal(10,2)": (Decimal("1.50"), Decimal("-2.00")),
    "timestamp": (_NOON, _NOON + dt.timedelta(microseconds=1)),
    "binary": (b"", b"\x00", b"\xff"),
    "array<bigint>": ([1, 2], [2, 1], [], [1, None]),
}
SCALAR_KEYS = tuple(name for name in KEY_DOMAINS if not name.startswith("array"))

# Extra payload columns: none of them takes part in the join.
PAYLOADS: Mapping[str, tuple[str, st.SearchStrategy[Any]]] = {
    "note": ("string", st.sampled_from([None, "", "hello"])),
    "ratio": ("double", st.sampled_from([None, 0.5, float("nan")])),
    "tags": ("array<string>", st.sampled_from([None, [], ["red", None], ["blue"]])),
    "spot": ("struct<x:bigint,label:string>", st.sampled_from([None, {"x": 1, "label": "l"}])),
}


@st.composite
def cases(
    draw: st.DrawFn,
    min_inputs: int = 1,
    max_inputs: int = 6,
    kinds: Sequence[str] = KINDS,
    windows: Sequence[type[Window]] = ALL_WINDOWS,
    key_types: Sequence[str] = tuple(KEY_DOMAINS),
    payloads: Sequence[str] = tuple(PAYLOADS),
    key_expressions: bool = False,
) -> tuple[Query, list[MicroBatch]]:
    """A query and the micro-batches that arrive for it."""
    query = draw(
        queries(
            min_inputs=min_inputs,
            max_inputs=max_inputs,
            kinds=kinds,
            windows=windows,
            key_types=key_types,
            payloads=payloads,
            key_expressions=key_expressions,
        )
    )
    return query, draw(microbatches(query))


@st.composite
def queries(
    draw: st.DrawFn,
    min_inputs: int = 1,
    max_inputs: int = 6,
    kinds: Sequence[str] = KINDS,
    windows: Sequence[type[Window]] = ALL_WINDOWS,
    key_types: Sequence[str] = tuple(KEY_DOMAINS),
    payloads: Sequence[str] = tuple(PAYLOADS),
    key_expressions: bool = False,
) -> Query:
    """A bound query over a connected join graph of any shape."""
    count = draw(st.integers(min_inputs, max_inputs))
    aliases = ALIASES[:count]
    stream_of = draw(_occurrences(count))
    members = draw(class_members(count))
    kind = draw(st.sampled_from(list(kinds)))
    types = [draw(st.sampled_from(list(key_types))) for _ in members]
    streams = [draw(_stream(n, stream_of, members, types, payloads)) for n in range(max(stream_of) + 1)]
    drawn = [draw(window(windows, streams[number])) for number in stream_of]
    if kind == "aggregate" and not any(each.is_bounded for each in drawn):
        drawn[0] = range_us(draw(st.sampled_from(SIZES_US)))
    inputs = [
        Input(
            alias,
            streams[stream_of[n]],
            drawn[n],
            (_over_one(alias),) if draw(st.integers(0, 2 * count)) == 0 else (),
        )
        for n, alias in enumerate(aliases)
    ]
    classes = [
        draw(_attribute_class(number, types[number], [inputs[n] for n in inside], key_expressions))
        for number, inside in enumerate(members)
    ]
    select, aggregate = draw(_answer(kind, inputs))
    query = Query(
        inputs=tuple(inputs),
        graph=JoinGraph(tuple(aliases), tuple(classes)),
        select=select,
        residual=draw(st.sampled_from([(), (), (_no_more(aliases[0], aliases[-1]),)])) if count > 1 else (),
        distinct=kind == "distinct",
        aggregate=aggregate,
    )
    assert query.graph.is_connected
    return replace(query, text=query.pretty())


@st.composite
def class_members(draw: st.DrawFn, count: int) -> list[tuple[int, ...]]:
    """Which inputs, by position, each attribute class joins: the papers' shapes and random ones between."""
    if count == 1:
        return []
    everyone = tuple(range(count))
    chain = [(n, n + 1) for n in range(count - 1)]
    shapes = {
        "same key": [everyone],
        "composite same key": [everyone, everyone],
        "chain": chain,
        "star": [(0, n) for n in everyone[1:]],
        "late star": [(n, count - 1) for n in everyone[:-1]],
        "composite chain": [chain[0], *chain],
    }
    if count > 2:
        shapes["cycle"] = [*chain, (0, count - 1)]
        shapes["clique"] = list(combinations(everyone, 2))
        shapes["random"] = []
    shape = draw(st.sampled_from(sorted(shapes)))
    return shapes[shape] or draw(_random_members(count))


@st.composite
def _random_members(draw: st.DrawFn, count: int) -> list[tuple[int, ...]]:
    """A random tree, with some classes widened and some edges added."""
    classes = [{draw(st.integers(0, n - 1)), n} for n in range(1, count)]
    for _ in range(draw(st.integers(0, 2))):
        draw(st.sampled_from(classes)).add(draw(st.integers(0, count - 1)))
    for _ in range(draw(st.integers(0, 2))):
        first = draw(st.integers(0, count - 2))
        classes.append({first, draw(st.integers(first + 1, count - 1))})
    return [tuple(sorted(members)) for members in classes]


def answered_at_end(query: Query, size_us: int = 10) -> Query:
    """An aggregate query with tumbling windows of one size in place of its bounded ones, and EMIT AT END."""
    assert query.aggregate is not None
    inputs = tuple(
        replace(item, window=tumble_us(size_us) if item.window.is_bounded else UNBOUNDED)
        for item in query.inputs
    )
    aggregate = replace(query.aggregate, emit_every_us=size_us, at_end=True)
    return replace(query, inputs=inputs, aggregate=aggregate)


@st.composite
def window(
    draw: st.DrawFn, kinds: Sequence[type[Window]] = ALL_WINDOWS, stream: Stream | None = None
) -> Window:
    """A window of one of the kinds, small against the span of event times, of a stream's columns."""
    kind = draw(st.sampled_from(list(kinds)))
    if kind is PartitionRowsWindow:
        assert stream is not None
        plain = [c.name for c in stream.columns if not c.type.startswith(("array", "struct", "timestamp"))]
        few = st.lists(st.sampled_from(plain), min_size=1, max_size=2, unique=True)
        return last_of_each(draw(few), draw(st.integers(1, 3)))
    if not kind.is_bounded:
        return UNBOUNDED
    return kind(draw(st.integers(1, 5) if kind.counts_rows else st.sampled_from(SIZES_US)))


@st.composite
def microbatches(draw: st.DrawFn, query: Query) -> list[MicroBatch]:
    """Tuples of every stream cut into batches by time of arrival, some out of order and some too late."""
    origin = draw(st.sampled_from(ORIGINS_US))
    span = SPAN_US[len(query.inputs)]
    quiet = draw(st.sampled_from([None, None, None, None, *query.streams]))
    arrivals = {
        stream.name: draw(_arrivals(query, stream, origin, quiet=stream is quiet)) for stream in query.streams
    }
    count = draw(st.sampled_from([0, 1, 3, 4, 5, 6]))
    cuts = draw(st.lists(st.integers(0, span + 10), min_size=count, max_size=count))
    bounds = [-1, *sorted(cuts), span + 1000]
    return [
        {
            name: [tuple_ for arrival, tuple_ in arrived if low < arrival <= high]
            for name, arrived in arrivals.items()
        }
        for low, high in pairwise(bounds)
    ]


@st.composite
def _arrivals(
    draw: st.DrawFn, query: Query, stream: Stream, origin: int, quiet: bool
) -> list[tuple[int, Tuple]]:
    """Tuples with the time each arrives: most within the lateness; a quiet stream starts late."""
    silence = draw(st.sampled_from([0, 15, 25])) if quiet else 0
    limit = MAX_TUPLES[len(query.inputs)]
    count = draw(st.integers(0, limit)) if quiet else limit
    ts = st.integers(0, SPAN_US[len(query.inputs)])
    delay = st.sampled_from([0, 0, stream.lateness_us // 2, stream.lateness_us, 2 * stream.lateness_us + 15])
    values = st.fixed_dictionaries(
        {
            column.name: _column_values(column, len(query.graph.classes))
            for column in stream.columns
            if column.name != stream.event_time
        }
    )
    drawn = draw(st.lists(st.tuples(ts, delay, values), min_size=count, max_size=count))
    if drawn and draw(st.booleans()):
        drawn[-1] = drawn[0]  # a duplicate
    settled = _alike_in_nested(stream, [Tuple(origin + ts, values) for ts, _, values in drawn])
    arrivals = [(silence + at + wait, tuple_) for (at, wait, _), tuple_ in zip(drawn, settled, strict=True)]
    return sorted(arrivals, key=lambda arrival: arrival[0])


def _alike_in_nested(stream: Stream, tuples: Sequence[Tuple]) -> list[Tuple]:
    """Tuples equal in ts and all scalars made equal in nested values, which decide no order among them."""
    nested = [column.name for column in stream.columns if column.type.startswith(("array", "struct"))]
    first: dict[Any, Mapping[str, Any]] = {}
    alike = []
    for tuple_ in tuples:
        scalars = {name: value for name, value in tuple_.values.items() if name not in nested}
        model = first.setdefault((tuple_.ts, canonical(scalars)), tuple_.values)
        alike.append(Tuple(tuple_.ts, {**tuple_.values, **{name: model[name] for name in nested}}))
    return alike


def _column_values(column: Column, classes: int) -> st.SearchStrategy[Any]:
    if column.name in PAYLOADS:
        return PAYLOADS[column.name][1]
    if column.name == "v":
        return st.sampled_from([None, 0, 1, 2, 3, 4, 5])
    domain = KEY_DOMAINS[column.type]
    favourites = [domain[0]] * (3 * classes)  # with many classes, only frequent values ever meet in all
    return st.sampled_from([*favourites, *domain, None])


@st.composite
def _occurrences(draw: st.DrawFn, count: int) -> list[int]:
    """Which stream each input reads; a self-join reads an earlier one again."""
    streams = [0]
    for _ in range(count - 1):
        again = draw(st.integers(0, 4)) == 0
        streams.append(draw(st.sampled_from(streams)) if again else max(streams) + 1)
    return streams


@st.composite
def _stream(
    draw: st.DrawFn,
    number: int,
    stream_of: Sequence[int],
    members: Sequence[Sequence[int]],
    types: Sequence[str],
    payloads: Sequence[str],
) -> Stream:
    """A stream with a key column for each class it takes part in, two where a class holds it twice."""
    columns = []
    for cls, inside in enumerate(members):
        occurrences = sum(stream_of[n] == number for n in inside)
        columns += [Column(f"{prefix}{cls}", types[cls]) for prefix in "kj"[: min(occurrences, 2)]]
    columns.append(Column("v", "bigint"))
    if payloads:
        extra = draw(st.lists(st.sampled_from(list(payloads)), unique=True, max_size=2))
        columns += [Column(name, PAYLOADS[name][0]) for name in extra]
    columns.append(Column("ts", "timestamp"))
    lateness = draw(st.sampled_from([0, 1, 5, 10]))
    return Stream(f"s{number + 1}", tuple(columns), event_time="ts", lateness_us=lateness)


@st.composite
def _attribute_class(
    draw: st.DrawFn, number: int, type_name: str, inputs: Sequence[Input], key_expressions: bool
) -> AttributeClass:
    """A class of key columns of these inputs, some through a function that keeps their type."""
    attributes = []
    for item in inputs:
        columns = [name for name in (f"k{number}", f"j{number}") if item.stream.column(name)]
        expr = column_expr(item.alias, draw(st.sampled_from(columns)), type_name)
        function = {"string": "lower", "array<bigint>": "array_sort"}.get(type_name)
        if key_expressions and function and draw(st.booleans()):
            expr = replace(expr, sql=f"{function}({expr.sql})")
        attributes.append(Attribute(item.alias, expr))
    return AttributeClass(tuple(attributes), type_name)


@st.composite
def _answer(
    draw: st.DrawFn, kind: str, inputs: Sequence[Input]
) -> tuple[tuple[Output, ...], Aggregate | None]:
    """The SELECT list, and the GROUP BY of an aggregate query."""
    first, last = inputs[0].alias, inputs[-1].alias
    columns = [(item.alias, column) for item in inputs for column in item.stream.columns]
    if kind == "plain":
        others = draw(st.lists(st.sampled_from(columns), unique=True, max_size=4))
        chosen = {(item.alias, "v") for item in inputs} | {(alias, column.name) for alias, column in others}
        outputs = [Output(f"{alias}_{name}", column_expr(alias, name)) for alias, name in sorted(chosen)]
        return (*outputs, Output("answer_time", Expr("answer_time", uses_answer_time=True))), None
    chosen_columns = draw(st.lists(st.sampled_from(columns), unique=True, min_size=1, max_size=2))
    outputs = [Output(f"{alias}_{c.name}", column_expr(alias, c.name, c.type)) for alias, c in chosen_columns]
    if kind == "distinct":
        return tuple(outputs), None
    grouped = draw(st.sampled_from([[], outputs[:1], outputs]))
    having = Expr("count(*) > 1") if draw(st.integers(0, 3)) == 0 else None
    aggregates = (
        Output("n", Expr("count(*)", type="bigint")),
        Output("total", Expr(f"sum({first}.v)", (ColumnRef(first, "v"),), "bigint")),
        Output("least", Expr(f"min({last}.v)", (ColumnRef(last, "v"),), "bigint")),
        Output("kinds", Expr(f"count(DISTINCT {last}.v)", (ColumnRef(last, "v"),), "bigint")),
        Output("tick", Expr("answer_time", uses_answer_time=True)),
    )
    group_by = tuple(output.expr for output in grouped)
    return (*grouped, *aggregates), Aggregate(group_by, draw(st.integers(1, 15)), having)


def _over_one(alias: str) -> Expr:
    return Expr(f"{alias}.v > 1", (ColumnRef(alias, "v"),), "boolean")


def _no_more(left: str, right: str) -> Expr:
    return Expr(f"{left}.v <= {right}.v", (ColumnRef(left, "v"), ColumnRef(right, "v")), "boolean")


def to_arrow(stream: Stream, tuples: Sequence[Tuple]) -> pa.Table:
    """Tuples as an Arrow table of the stream's declared columns, event time included."""
    columns = {}
    for column in stream.columns:
        is_time = column.name == stream.event_time
        values = [tuple_.ts if is_time else tuple_.values[column.name] for tuple_ in tuples]
        columns[column.name] = pa.array(values, arrow_type(column.type))
    return pa.table(columns)
