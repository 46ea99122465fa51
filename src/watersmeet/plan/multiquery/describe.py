"""Joins of a dataflow as lines of text, and how many queries share each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from watersmeet.query.shared_dataflow import Join, Relation, SharedDataflow


def describe_join(
    join: Join, relations: Mapping[str, Relation], made: Mapping[str, str] | None = None
) -> str:
    """What meets what, by which attribute; `made` says what to call the results of joins."""
    members = [relations[name] for name in join.members]
    met = ", ".join(
        f"{one.slot or (made or {}).get(one.source, one.source)} by {one.route}" for one in members
    )
    routes = {one.qualified(one.route) for one in members}
    also = [f"{left} = {right}" for left, right in join.equalities if not {left, right} <= routes]
    return f"{met} where {' and '.join(also)}" if also else met


def describe_levels(dataflow: SharedDataflow, aliases: Sequence[str]) -> list[str]:
    """The joins of one query's dataflow, a line each; partial results are named by the query's aliases."""
    relations = {relation.name: relation for relation in dataflow.relations}
    made = {
        join.name: " ⋈ ".join(alias for alias in aliases if alias in join.slots) for join in dataflow.joins
    }
    routes = {way.relation: relations[way.relation].route for join in dataflow.joins for way in join.ways}
    return [
        f"level {join.level}: {describe_join(join, relations, made)}"
        + (f"; on by {' or '.join(routes[way.relation] for way in join.ways)}" if join.ways else "")
        for join in dataflow.joins
    ]


def queries_sharing(dataflow: SharedDataflow) -> Counter[str]:
    """For every join, how many queries need its results."""
    source = {relation.name: relation.source for relation in dataflow.relations}
    shared: Counter[str] = Counter(tail.join for tail in dataflow.tails)
    for join in sorted(dataflow.joins, key=lambda join: -join.level):
        for below in {source[member] for member in join.members}:
            shared[below] += shared[join.name]
    return shared
