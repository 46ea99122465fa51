"""Plans a shared dataflow: a tree of joins per query, chosen so that queries share what they have in common.

After RJoin (Idreos, Liarou, Koubarakis, "Continuous Multi-Way Joins over Distributed Hash Tables", EDBT
2008), where a tuple is indexed once for all queries and a query is rewritten step by step, each step chosen
by the rate of incoming tuples (RIC), and DHTJoin (Palma et al.), which sends only what some query needs. Here
the steps are the joins of a dataflow. They are the same for every tuple, and chosen when a query is added, by
the rate of results and by the joins that other queries have already.

Guarantee: queries are planned in the order of their numbers, so the same queries give the same dataflow. A
query of the `kept` dataflow keeps its joins, and so its state; new queries are planned around it. A tree that
would need more levels than the dataflow has is refused, with the number it needs.

Where we differ: RJoin chooses the next step for every rewritten query, by what its node has observed; here
all results of a join go the same way.

Example: three queries join s1.x = s2.x, and two of them join s3 on another attribute, with different
constants. One join of s1 and s2 at level 1, where the first query ends; one with s3 at level 2, where the
other two end.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from watersmeet.errors import QueryError
from watersmeet.plan.multiquery.draft import DataflowDraft
from watersmeet.plan.multiquery.kept import KeptTrees
from watersmeet.plan.multiquery.rates import RateModels
from watersmeet.plan.multiquery.slots import Slotted
from watersmeet.plan.multiquery.stream_sets import StreamSet, stream_set
from watersmeet.plan.multiquery.tails import Registered, end_query, takes_level
from watersmeet.plan.multiquery.tree import Planting, Tree, cheapest_tree, fewest_levels
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query, Stream
from watersmeet.query.shared_dataflow import SharedDataflow

__all__ = ["MAX_STREAMS", "Registered", "plan_dataflow", "why_beside", "why_unfit"]

MAX_STREAMS = 63  # the bits of `SharedDataflow.streams` in one number


def plan_dataflow(
    queries: Sequence[Registered],
    streams: Sequence[Stream],
    levels: int,
    statistics: Statistics | None = None,
    kept: SharedDataflow | None = None,
) -> SharedDataflow:
    """The dataflow of these queries; default statistics where none are known."""
    if len({each.number for each in queries}) < len(queries):
        raise ValueError("two queries have the same number")
    sets = {each.number: stream_set(each.query.streams) for each in queries}
    ordered = _order_streams(streams, [found for found in sets.values() if found], kept)
    rates = RateModels(statistics or Statistics())
    trees = KeptTrees(kept)
    draft = DataflowDraft()
    tails = []
    for registered in sorted(queries, key=lambda each: (not trees.has(each.number), each.number)):
        _refuse_unfit(registered, ordered)
        slotted = Slotted.of(registered.query)
        planting = Planting(slotted, rates.model(slotted), draft)
        after = int(takes_level(slotted))
        tree = trees.replant(registered.number, planting, levels - after)
        if tree is None:
            tree = _plant(registered.name, planting, levels, after)
        tail, needed = end_query(registered, slotted, tree.name, ordered)
        if (found := sets[registered.number]) is not None:
            tail = replace(tail, streams=(found[0],))
        draft.add(slotted, tree, needed, tail.streams)
        tails.append(tail)
    by_name = dict(each for each in sets.values() if each)
    return replace(draft.dataflow(levels, ordered, tuple(tails)), sets=tuple(sorted(by_name.items())))


def _plant(name: str, planting: Planting, levels: int, after: int) -> Tree:
    """The tree of a query, with so many levels left after it."""
    tree = cheapest_tree(planting, levels - after) if levels > after else None
    if tree is None:
        needed = max(1, fewest_levels(planting)) + after
        what = "levels of joins, and one for the values of DISTINCT" if after else "levels of joins"
        raise QueryError(
            f"query {name} needs {needed} {what}, and the dataflow has {levels}: "
            f"give the dataflow {needed} levels, or run the query by itself"
        )
    return tree


def _order_streams(
    streams: Sequence[Stream], sets: Sequence[StreamSet], kept: SharedDataflow | None
) -> tuple[str, ...]:
    """Every stream, and every set of them, at an index of its own, which it keeps while it is needed."""
    wanted = dict(sets)
    before = kept.streams if kept else ()
    needed = dict.fromkeys([*(stream.name for stream in streams), *sorted(wanted)])
    coming = [name for name in needed if name not in before]
    ordered = [name if name in needed or not coming else coming.pop() for name in before] + coming
    if len(ordered) > MAX_STREAMS:
        said = f", and {len(wanted)} sets of streams with idle_after" if wanted else ""
        raise QueryError(
            f"a shared dataflow has at most {MAX_STREAMS} streams, not {len(ordered) - len(wanted)}{said}: "
            "use several dataflows, or declare fewer streams with idle_after"
        )
    return tuple(ordered)


def _refuse_unfit(registered: Registered, streams: Container[str]) -> None:
    """Refuses a query that cannot share a dataflow."""
    reason = why_unfit(registered.query)
    if reason is not None:
        raise QueryError(
            f"query {registered.name} does not run in a shared dataflow: {reason}. Run it by itself"
        )
    for item in registered.query.inputs:
        if item.stream.answers is not None:
            raise QueryError(
                f"query {registered.name}: {item.alias} are the answers of a query, and a shared dataflow "
                "serves streams alone. Run the query by itself"
            )
        if item.stream.view:
            raise QueryError(
                f"query {registered.name}: {item.alias} is a view, and a shared dataflow serves streams "
                "alone. Write its stream, and its conditions in WHERE; or run the query by itself"
            )
        if item.stream.name not in streams:
            raise QueryError(f"query {registered.name}: {item.stream.name} is no stream of the dataflow")


def why_beside(query: Query) -> str | None:
    """Why a query of a served dataflow runs beside it, as a streaming query of its own, or None."""
    if (reason := why_unfit(query)) is not None:
        return reason
    for item in query.inputs:
        if tables := [table.name for branch in item.stream.view for table in branch.tables]:
            return f"{item.alias} is joined with table {tables[0]}"
        if item.stream.view:
            return f"{item.alias} is a view"
    return None


def why_unfit(query: Query) -> str | None:
    """Why a query cannot be joins of tuples whose lifetimes are known on arrival, or None."""
    for item in query.inputs:
        if item.window.counts_rows:
            return f"{item.pretty()} counts rows, so the end of a tuple's lifetime is known only later"
    if query.tree is not None:
        return "it has outer, semi or anti joins"
    if not query.graph.is_connected:
        parts = "; ".join(", ".join(part) for part in query.graph.components())
        return f"nothing joins its parts: {parts}"
    return None
