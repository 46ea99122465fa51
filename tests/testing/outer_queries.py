"""Trees of joins built by hand over streams of k, v and ts, each its own: `s_a` for the input a."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tests.tree_strategies import KINDS
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import (
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
from watersmeet.query.join_tree import key_graph, visible_aliases

TEN = range_us(10)


def leaf(alias: str) -> Block:
    return Block(JoinGraph((alias,)))


def node(
    kind: JoinKind, left: Tree, right: Tree, *equal: tuple[str, str], on: Sequence[Expr] = ()
) -> JoinNode:
    """A join on pairs of columns, `("a.k", "b.k")`, and conditions."""
    equalities = tuple(Equality(_column(one), _column(other), "bigint") for one, other in equal)
    return JoinNode(kind, left, right, equalities, tuple(on))


def condition(sql: str, *columns: str) -> Expr:
    refs = tuple(ColumnRef(*name.split(".")) for name in columns)
    return Expr(sql, refs, "boolean")


def query(tree: JoinNode, windows: Mapping[str, Window] | None = None, lateness_us: int = 0) -> Query:
    """The v of every input that can be seen, and t; windows are [RANGE 10 US] where they are not given."""
    aliases = tuple(sorted(tree.aliases))
    columns = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
    inputs = tuple(
        Input(
            alias,
            Stream(f"s_{alias}", columns, event_time="ts", lateness_us=lateness_us),
            (windows or {}).get(alias, TEN),
        )
        for alias in aliases
    )
    seen = [alias for alias in aliases if alias in visible_aliases(tree)]
    outputs = [Output(alias, _column(f"{alias}.v")) for alias in seen]
    time = Output("answer_time", Expr("answer_time", uses_answer_time=True))
    return Query(inputs, key_graph(aliases, tree), (*outputs, time), tree=tree)


def _column(name: str) -> Expr:
    alias, column = name.split(".")
    return column_expr(alias, column, "bigint")


def random_tree(rng: random.Random, aliases: list[str]) -> Tree:
    """A random tree over these inputs; its joins are on k or on v, or on both."""
    if len(aliases) == 1:
        return leaf(aliases[0])
    cut = len(aliases) - 1 if rng.random() < 0.6 else rng.randint(1, len(aliases) - 1)
    left, right = random_tree(rng, aliases[:cut]), random_tree(rng, aliases[cut:])
    if rng.random() < 0.2:
        left, right = right, left
    one, other = rng.choice(visible_aliases(left)), rng.choice(visible_aliases(right))
    pairs = rng.choice([["k", "k"], ["v", "v"], ["k", "v"], ["v", "k"]])
    equal = [(f"{one}.{pairs[0]}", f"{other}.{pairs[1]}")]
    if rng.random() < 0.15:
        equal.append((f"{rng.choice(visible_aliases(left))}.k", f"{other}.k"))
    on = []
    if rng.random() < 0.3:
        names = f"{rng.choice(visible_aliases(left))}.v", f"{other}.v"
        on.append(condition(f"{names[0]} <= {names[1]}", *names))
    return node(rng.choice(KINDS), left, right, *equal, on=on)


def random_batches(query_: Query, seed: int, batches: int = 4, tuples: int = 25) -> list[MicroBatch]:
    """Batches in which keys meet, some are NULL, and event times come in some disorder."""
    rng = random.Random(seed)
    return [
        {stream.name: [_draw(rng, 12 * number) for _ in range(tuples)] for stream in query_.streams}
        for number in range(batches)
    ]


def _draw(rng: random.Random, since: int) -> Tuple:
    ts = since + rng.randrange(12) - (3 if rng.random() < 0.2 else 0)
    return Tuple(ts, {"k": rng.choice([1, 1, 2, 3, 4, 5, None]), "v": rng.choice([1, 2, 3, None])})
