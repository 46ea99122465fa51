"""What the tests of DHTJoin share: queries in a line, small rings, posing queries and publishing tuples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.network import DhtJoinNetwork, QueryArrival, TupleArrival, start_dhtjoin
from watersmeet.lab.overlay.dhtjoin.protocol import Settings
from watersmeet.lab.simulation import equality, join_query
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import (
    Column,
    Input,
    Output,
    Query,
    Stream,
    column_expr,
    range_us,
)


def join(equalities: Sequence[str], window_us: int = 100, select: str | None = None) -> Query:
    """A query from equalities such as `x.b = y.b`; every stream has integer columns a, b, c and d."""
    sides = [[_attribute(side) for side in text.split("=")] for text in equalities]
    aliases = tuple(dict.fromkeys(alias for side in sides for alias, _ in side))
    columns = tuple(Column(name, "bigint") for name in "abcd")
    first = select or f"{aliases[0]}.a"
    return join_query(
        [Input(alias, Stream(alias, columns), range_us(window_us)) for alias in aliases],
        [equality(*side) for side in sides],
        [Output("a", column_expr(*first.split("."), "bigint"))],
    )


def _attribute(text: str) -> tuple[str, str]:
    alias, column = text.strip().split(".")
    return alias, column


def pose(run: DhtJoinNetwork, query: Query, at_us: int = 0, node: int = 0, qid: str = "q") -> None:
    run.submit_at(QueryArrival(at_us, node, qid, query), Statistics())


def publish(run: DhtJoinNetwork, stream: str, at_us: int, node: int = 0, **values: int) -> None:
    full = {"a": 0, "b": 0, "c": 0, "d": 0, **values}
    run.insert_at(TupleArrival(at_us, node, stream, Tuple(at_us, full)))


def quiet(**options: Any) -> DhtJoinNetwork:
    """Eight nodes on a full ring, messages taking no time."""
    return start_dhtjoin(StableRing(range(8), 3), Settings(**options))
