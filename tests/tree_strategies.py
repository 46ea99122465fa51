"""Random trees of inner, outer, semi and anti joins, with micro-batches: `tree_cases()` is the entry.

Everything a tree can have is drawn: blocks of several inputs, sides swapped, every kind of window, keys that
are NULL, equalities on one key or on several, conditions in ON that decide matches, NOT IN, conditions after
the joins. What is refused when it is bound is not drawn: a side that is kept for want of a match has an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import strategies as st

from tests.strategies import (
    ALIASES,
    ALL_WINDOWS,
    PAYLOADS,
    SCALAR_KEYS,
    SIZES_US,
    microbatches,
    window,
)
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import (
    Attribute,
    AttributeClass,
    Block,
    Column,
    ColumnRef,
    Equality,
    Expr,
    Input,
    JoinGraph,
    JoinKind,
    JoinNode,
    Output,
    Query,
    Stream,
    Tree,
    Window,
    column_expr,
    range_us,
)
from watersmeet.query.join_tree import has_end, key_graph, nodes, visible_aliases

KINDS = (JoinKind.INNER, JoinKind.LEFT, JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI)


@st.composite
def tree_cases(
    draw: st.DrawFn,
    min_inputs: int = 2,
    max_inputs: int = 5,
    windows: Sequence[type[Window]] = ALL_WINDOWS,
    key_types: Sequence[str] = SCALAR_KEYS,
    kinds: Sequence[JoinKind] = KINDS,
    one_key: bool | None = None,
    residuals: bool = True,
) -> tuple[Query, list[MicroBatch]]:
    """A query with a tree of joins and the micro-batches that arrive for it.

    With `one_key` every equality is on the same key, so that one bucket can decide what matches. `residuals`
    are conditions in ON that are no equalities.
    """
    query = draw(
        tree_queries(min_inputs, max_inputs, windows, key_types, kinds, one_key=one_key, residuals=residuals)
    )
    return query, draw(microbatches(query))


@st.composite
def tree_queries(
    draw: st.DrawFn,
    min_inputs: int = 2,
    max_inputs: int = 5,
    windows: Sequence[type[Window]] = ALL_WINDOWS,
    key_types: Sequence[str] = SCALAR_KEYS,
    kinds: Sequence[JoinKind] = KINDS,
    one_key: bool | None = None,
    residuals: bool = True,
) -> Query:
    """A bound query with a tree of joins, at least one of them not inner."""
    aliases = ALIASES[: draw(st.integers(min_inputs, max_inputs))]
    keys = 1 if (draw(st.booleans()) if one_key is None else one_key) else 2
    types = [draw(st.sampled_from(list(key_types))) for _ in range(keys)]
    inputs = draw(_inputs(aliases, types, windows))
    tree = draw(_trees(list(aliases), tuple(kinds), types, residuals, is_top=True))
    inputs = draw(_with_ends(inputs, tree))
    seen = [item for item in inputs if item.alias in visible_aliases(tree)]
    columns = [(item.alias, column.name) for item in seen for column in item.stream.columns]
    others = draw(st.lists(st.sampled_from(columns), unique=True, max_size=3))
    chosen = sorted({(item.alias, "v") for item in seen} | set(others))
    outputs = [Output(f"{alias}_{name}", column_expr(alias, name)) for alias, name in chosen]
    query = Query(
        inputs=inputs,
        graph=key_graph(tuple(aliases), tree),
        select=(*outputs, Output("answer_time", Expr("answer_time", uses_answer_time=True))),
        residual=draw(_where([item.alias for item in seen])),
        tree=tree,
    )
    return replace(query, text=query.pretty())


@st.composite
def _inputs(
    draw: st.DrawFn, aliases: Sequence[str], types: Sequence[str], windows: Sequence[type[Window]]
) -> tuple[Input, ...]:
    """An input for each alias; some read the stream of one before."""
    streams: list[Stream] = []
    inputs = []
    for alias in aliases:
        if not streams or draw(st.integers(0, 4)):
            columns = [Column(f"k{number}", kind) for number, kind in enumerate(types)]
            columns.append(Column("v", "bigint"))
            if draw(st.booleans()):
                name = draw(st.sampled_from(list(PAYLOADS)))
                columns.append(Column(name, PAYLOADS[name][0]))
            columns.append(Column("ts", "timestamp"))
            lateness = draw(st.sampled_from([0, 1, 5, 10]))
            streams.append(
                Stream(f"s{len(streams) + 1}", tuple(columns), event_time="ts", lateness_us=lateness)
            )
            stream = streams[-1]
        else:
            stream = draw(st.sampled_from(streams))
        filters = (_over_one(alias),) if draw(st.integers(0, 2 * len(aliases))) == 0 else ()
        inputs.append(Input(alias, stream, draw(window(windows)), filters))
    return tuple(inputs)


@st.composite
def _trees(
    draw: st.DrawFn,
    aliases: list[str],
    kinds: tuple[JoinKind, ...],
    types: Sequence[str],
    residuals: bool,
    is_top: bool = False,
) -> Tree:
    """A tree over these inputs: left-deep as SQL is written mostly, or with joins on the right too."""
    if len(aliases) == 1:
        return Block(JoinGraph((aliases[0],)))
    if not is_top and draw(st.integers(0, 2)) == 0:
        return draw(_blocks(aliases, types, residuals))
    cut = len(aliases) - 1 if draw(st.booleans()) else draw(st.integers(1, len(aliases) - 1))
    left = draw(_trees(aliases[:cut], kinds, types, residuals))
    right = draw(_trees(aliases[cut:], kinds, types, residuals))
    kind = draw(st.sampled_from(kinds))
    is_all_inner = not any(node.kind is not JoinKind.INNER for side in (left, right) for node in nodes(side))
    if kind is JoinKind.INNER and is_all_inner:
        kind = JoinKind.LEFT
    if kind is JoinKind.LEFT and draw(st.integers(0, 3)) == 0:
        left, right = right, left  # what was written as a RIGHT JOIN
    return draw(_node(kind, left, right, types, residuals))


@st.composite
def _node(
    draw: st.DrawFn, kind: JoinKind, left: Tree, right: Tree, types: Sequence[str], residuals: bool
) -> JoinNode:
    lefts, rights = list(visible_aliases(left)), list(visible_aliases(right))
    numbers = draw(st.lists(st.integers(0, len(types) - 1), unique=True, min_size=1, max_size=2))
    equalities = tuple(
        Equality(
            column_expr(draw(st.sampled_from(lefts)), f"k{number}", types[number]),
            column_expr(draw(st.sampled_from(rights)), f"k{number}", types[number]),
            types[number],
        )
        for number in numbers
    )
    one, other = draw(st.sampled_from(lefts)), draw(st.sampled_from(rights))
    residual: tuple[Expr, ...] = ()
    if residuals:
        choices = [
            (),
            (),
            (),
            (_no_more(one, other),),
            (_over_one(one),),
            (_no_more(one, other), _over_one(one)),
        ]
        if kind is JoinKind.ANTI:
            choices.append((_may_equal(one, other),))
        residual = draw(st.sampled_from(choices))
    return JoinNode(kind, left, right, equalities, residual)


@st.composite
def _blocks(draw: st.DrawFn, aliases: list[str], types: Sequence[str], residuals: bool) -> Block:
    """Inputs joined on one key, or in a chain on several."""
    if len(types) == 1 or draw(st.booleans()):
        members = [(draw(st.integers(0, len(types) - 1)), tuple(aliases))]
    else:
        members = [(n % 2, pair) for n, pair in enumerate(pairwise(aliases))]
    classes = tuple(
        AttributeClass(
            tuple(Attribute(alias, column_expr(alias, f"k{number}", types[number])) for alias in inside),
            types[number],
        )
        for number, inside in members
    )
    residual = (_no_more(aliases[0], aliases[-1]),) if residuals and draw(st.integers(0, 3)) == 0 else ()
    return Block(JoinGraph(tuple(aliases), classes), residual)


@st.composite
def _with_ends(draw: st.DrawFn, inputs: tuple[Input, ...], tree: Tree) -> tuple[Input, ...]:
    """The inputs, with windows that end on every side that is kept for want of a match."""
    windows: dict[str, Window] = {item.alias: item.window for item in inputs}
    for node in nodes(tree):
        kept = [node.left] if node.kind.preserves_left else []
        kept += [node.right] if node.kind is JoinKind.FULL else []
        for side in kept:
            for alias in side.aliases:
                if not has_end(side, windows):
                    unending = not windows[alias].is_bounded
                    windows[alias] = range_us(draw(st.sampled_from(SIZES_US))) if unending else windows[alias]
    return tuple(replace(item, window=windows[item.alias]) for item in inputs)


@st.composite
def _where(draw: st.DrawFn, aliases: Sequence[str]) -> tuple[Expr, ...]:
    """Conditions after the joins, which see the NULLs of tuples that are missing."""
    one, other = draw(st.sampled_from(list(aliases))), draw(st.sampled_from(list(aliases)))
    is_null = Expr(f"{one}.ts IS NULL", (ColumnRef(one, "ts"),), "boolean")
    either = Expr(
        f"({one}.v IS NULL OR {other}.v > 1)", (ColumnRef(one, "v"), ColumnRef(other, "v")), "boolean"
    )
    less = _no_more(one, other)
    return draw(st.sampled_from([(), (), (), (), (), (), (is_null,), (either,), (_over_one(one),), (less,)]))


def _over_one(alias: str) -> Expr:
    return Expr(f"{alias}.v > 1", (ColumnRef(alias, "v"),), "boolean")


def _no_more(left: str, right: str) -> Expr:
    return Expr(f"{left}.v <= {right}.v", (ColumnRef(left, "v"), ColumnRef(right, "v")), "boolean")


def _may_equal(left: str, right: str) -> Expr:
    """What a partner must meet to keep a row out of NOT IN: it is equal, or NULL leaves that unknown."""
    columns = (ColumnRef(left, "v"), ColumnRef(right, "v"))
    return Expr(f"({left}.v = {right}.v) IS NOT FALSE", columns, "boolean")
