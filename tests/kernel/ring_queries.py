"""Random sets of queries over shared streams, some of which come or go midway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from tests.strategies import TIME_WINDOWS, cases, window
from watersmeet.oracle import MicroBatch
from watersmeet.plan.ring import Registered, plan_ring
from watersmeet.query import NEVER, AttributeClass, JoinGraph, Query, Stream
from watersmeet.query.ring import Ring

QuerySet = tuple[list[Registered], list[MicroBatch], tuple[Stream, ...]]


@st.composite
def query_sets(draw: st.DrawFn, max_inputs: int = 4) -> QuerySet:
    """A query, parts of it as further queries, and the micro-batches of their streams."""
    query, batches = draw(cases(kinds=("plain",), windows=TIME_WINDOWS, min_inputs=2, max_inputs=max_inputs))
    registered = []
    for number, one in enumerate([query, *(draw(_part(query)) for _ in range(draw(st.integers(0, 3))))]):
        since = draw(st.sampled_from([0, 0, 0, 1, 2]))
        until = draw(st.sampled_from([NEVER, NEVER, NEVER, since + 1, since + 2]))
        registered.append(Registered(f"q{number}", number, one, since, until))
    return registered, batches, query.streams


@st.composite
def _part(draw: st.DrawFn, query: Query) -> Query:
    """The query over some of its inputs, one of them perhaps under another window."""
    aliases = [alias for alias in query.graph.aliases if draw(st.integers(0, 3)) > 0]
    graph = _restricted(query.graph, aliases)
    if not aliases or len(graph.components()) > 1:
        aliases = [query.graph.aliases[0]]
        graph = _restricted(query.graph, aliases)
    inputs = [item for item in query.inputs if item.alias in aliases]
    if draw(st.integers(0, 3)) == 0:
        inputs[0] = replace(inputs[0], window=draw(window(TIME_WINDOWS)))
    part = Query(
        inputs=tuple(inputs),
        graph=graph,
        select=tuple(one for one in query.select if set(one.expr.aliases) <= set(aliases)),
        residual=tuple(expr for expr in query.residual if set(expr.aliases) <= set(aliases)),
    )
    return replace(part, text=part.pretty())


def _restricted(graph: JoinGraph, aliases: list[str]) -> JoinGraph:
    classes = []
    for cls in graph.classes:
        inside = tuple(one for one in cls.attributes if one.alias in aliases)
        if len(inside) > 1:
            classes.append(AttributeClass(inside, cls.type))
    return JoinGraph(tuple(aliases), tuple(classes))


def ring_by_batch(
    registered: list[Registered], streams: tuple[Stream, ...], levels: int = 6
) -> Callable[[int], Ring]:
    """The ring in effect in each micro-batch, planned anew whenever a query comes."""
    rings: dict[int, Ring] = {}

    def ring_of(batch: int) -> Ring:
        known = [one for one in registered if one.since <= batch]
        if len(known) not in rings:
            kept = rings[max(rings)] if rings else None
            rings[len(known)] = plan_ring(known, streams, levels, kept=kept)
        return rings[len(known)]

    return ring_of
