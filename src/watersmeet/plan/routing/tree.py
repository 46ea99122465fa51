"""Routing of a tree of outer, semi and anti joins: tuples that decide about each other meet in one bucket."""

from __future__ import annotations

from watersmeet.errors import ConfigurationError
from watersmeet.plan.routing.routing import Shares
from watersmeet.plan.routing.shares import Hypercube
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import JoinNode, Query
from watersmeet.query.join_tree import meeting_class

ONE_BUCKET = "no key is in every join of the tree, so all tuples meet in one bucket"


def route_tree(
    query: Query, tree: JoinNode, statistics: Statistics, partitions: int, wanted: str | None
) -> Shares:
    """Buckets by the key that every join of the tree has an equality on; one bucket where there is none.

    A tuple goes to one bucket: what has no match there has none anywhere.
    """
    if wanted not in (None, Shares.name):
        raise ConfigurationError(
            f"outer, semi and anti joins are routed by shares, not by {wanted}: only where all tuples of a "
            "key meet is it known what has no match. Use --routing shares"
        )
    sources = rate_model(query, statistics).sources
    bytes_per_s = tuple(source.rate_per_s * source.tuple_bytes for source in sources)
    meeting = meeting_class(query.graph, tree)
    shares = tuple(partitions if cls is meeting else 1 for cls in query.graph.classes)
    reason = ONE_BUCKET if meeting is None else f"every join of the tree has {meeting.pretty()}"
    return Shares(Hypercube(query.graph, shares, bytes_per_s), reason)
