"""Routing of a tree of outer, semi and anti joins: tuples that decide about each other meet in one bucket."""

from __future__ import annotations

from watersmeet.errors import ConfigurationError
from watersmeet.plan.routing.routing import Pipeline, Shares, TreePipeline
from watersmeet.plan.routing.shares import Hypercube
from watersmeet.plan.routing.tree_stages import StagedTree, cut_tree
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import AttributeClass, Input, JoinNode, Query
from watersmeet.query.join_tree import meeting_class

NO_KEY = "no key is in every join of the tree"
ONE_BUCKET = f"{NO_KEY}, so all tuples meet in one bucket"


def route_tree(
    query: Query, tree: JoinNode, statistics: Statistics, partitions: int, wanted: str | None
) -> Shares | TreePipeline:
    """Buckets by the key that every join of the tree has an equality on; a pipeline where there is none.

    What cannot run as a pipeline does so in one bucket. A tuple, and a result, goes to one bucket of a stage:
    what has no match there has none anywhere.
    """
    if wanted not in (None, Shares.name, Pipeline.name):
        raise ConfigurationError(
            f"outer, semi and anti joins are routed by shares or as a pipeline, not by {wanted}: only where "
            "all tuples of a key meet is it known what has no match. Use --routing shares or pipeline"
        )
    if wanted == Pipeline.name:
        return _asked_for(query)
    meeting = meeting_class(query.graph, tree)
    reason = ONE_BUCKET if meeting is None else f"every join of the tree has {meeting.pretty()}"
    counted = _counted_elsewhere(query, meeting)
    if meeting is not None and counted is not None:
        reason = f"{counted.pretty()} is counted by columns that {meeting.pretty()} does not follow from, "
        reason += "so all tuples meet in one bucket"
        meeting = None
    elif meeting is None and wanted is None and partitions > 1:
        staged = cut_tree(query)
        if isinstance(staged, StagedTree):
            return TreePipeline(staged, f"{NO_KEY}, so each stage goes by one of its own")
        reason = f"{ONE_BUCKET}: {staged}"
    sources = rate_model(query, statistics).sources
    bytes_per_s = tuple(source.rate_per_s * source.tuple_bytes for source in sources)
    shares = tuple(partitions if cls is meeting else 1 for cls in query.graph.classes)
    return Shares(Hypercube(query.graph, shares, bytes_per_s), reason)


def _counted_elsewhere(query: Query, key: AttributeClass | None) -> Input | None:
    """An input under PARTITION BY whose tuples of one value may have several keys, and so several buckets."""
    if key is None:
        return None
    number = query.graph.classes.index(key)
    return next((item for item in query.inputs if number not in query.routing_classes(item.alias)), None)


def _asked_for(query: Query) -> TreePipeline:
    staged = cut_tree(query)
    if isinstance(staged, str):
        raise ConfigurationError(f"the joins do not run as a pipeline: {staged}. Route them by shares")
    return TreePipeline(staged, "asked for")
