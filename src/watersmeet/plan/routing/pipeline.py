"""One query as a pipeline: a dataflow of its own, whose levels are stages of one Spark query.

After DHTJoin's type-2 queries (`dhtjoin`): a bushy tree of joins, the partial results of each routed on by
the attribute of the next. The tree is the one whose partial results have the fewest bytes/s, the very tree
that `pipeline_or_shares` prices. Unlike in a shared dataflow every input is a feed of its own, named by
its alias and sent after its local filters, and the residual conditions and the SELECT list are left to Spark.

    a.x = b.x, b.y = c.y     feeds a, b, c     level 1: a and b by x     level 2: their results by b.y, c by y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.errors import QueryError
from watersmeet.plan.multiquery.draft import DataflowDraft
from watersmeet.plan.multiquery.plan_dataflow import why_unfit
from watersmeet.plan.multiquery.slots import Slotted
from watersmeet.plan.multiquery.stream_sets import stream_set
from watersmeet.plan.multiquery.tails import hold_of
from watersmeet.plan.multiquery.tree import Planting, Tree, cheapest_tree, fewest_levels
from watersmeet.plan.sites.dhtjoin import JoinTree, find_join_tree
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query
from watersmeet.query.shared_dataflow import QueryTail, SharedDataflow


def plan_pipeline(
    query: Query, levels: int | None = None, statistics: Statistics | None = None
) -> SharedDataflow:
    """The pipeline of a query, of at most so many levels; default statistics where none are known."""
    reason = why_unfit(query)
    if reason is not None:
        raise QueryError(f"the query does not run as a pipeline: {reason}. Route it by shares")
    slotted = Slotted.by_alias(query)
    planting = Planting(slotted, rate_model(query, statistics or Statistics()), ())
    tree = _cheapest(planting, levels)
    return dataflow_of_trees(slotted, [tree])


def dataflow_of_trees(slotted: Slotted, trees: Sequence[Tree]) -> SharedDataflow:
    """The dataflow of one query whose answers come from some trees; all but the joins is left to Spark."""
    query = slotted.query
    names = tuple(stream.name for stream in query.streams)
    joint = stream_set(query.streams)
    streams = names if joint is None else (joint[0],)
    needed = [(n, column) for n, item in enumerate(query.inputs) for column in query.payload(item.alias)]
    draft, tails = DataflowDraft(), []
    for number, tree in enumerate(trees):
        draft.add(slotted, tree, frozenset(needed), streams)
        tail = QueryTail(
            query="",
            number=number,
            join=tree.name,
            streams=streams,
            slots=tuple((alias, alias) for alias in query.graph.aliases),
            conditions=tuple(expr.sql for expr in query.residual),
            payload=tuple(slotted.qualified(*column) for column in needed),
            hold=hold_of(query),
        )
        tails.append(tail)
    every = names if joint is None else (*names, joint[0])
    dataflow = draft.dataflow(max(tree.level for tree in trees), every, tuple(tails))
    return replace(dataflow, sets=() if joint is None else (joint,))


def _cheapest(planting: Planting, levels: int | None) -> Tree:
    query = planting.slotted.query
    if len(query.inputs) == 1:
        return planting.single()
    found, _ = find_join_tree(query.graph, planting.rates, counted="bytes")
    tree = _planted(found, planting)
    if levels is None or tree.level <= levels:
        return tree
    flatter = cheapest_tree(planting, levels)
    if flatter is None:
        raise QueryError(f"a pipeline of this query needs {fewest_levels(planting)} levels, not {levels}")
    return flatter


def _planted(tree: JoinTree, planting: Planting) -> Tree:
    parts = [part if isinstance(part, int) else _planted(part, planting) for part in tree.inputs]
    return planting.join(tree.cls, parts)
