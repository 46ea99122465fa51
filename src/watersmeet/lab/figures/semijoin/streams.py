"""Streams for the semijoin experiments: as the paper's data generator made them, from a model's parameters.

After Tran and Lee (2010), section 5.2: tuples come at a steady rate, and the values of a join attribute are
drawn uniformly from 1 / f of them. The values of a stream with fewer are among those of one with more
(Table 4's assumption), so they are 0, 1, ... . A reading of ours: a stream's first tuple comes at a random
moment of its own period, so that streams of equal rates do not tick together.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from watersmeet.lab.simulation import SECOND_US, equality
from watersmeet.lab.wan.feed import Feed, feed_of
from watersmeet.plan.sites.semijoin.cost import JoinSide
from watersmeet.plan.sites.semijoin.model import SemijoinModel, SiteStream
from watersmeet.plan.statistics.statistics import Link, Network
from watersmeet.query import JoinGraph, range_us


def window_us(stream: SiteStream) -> int:
    """The time window whose tuples, at the stream's rate, are those of the model."""
    return max(1, round(stream.window_tuples / stream.rate_per_s * SECOND_US))


def synthetic_feeds(model: SemijoinModel, seconds: float, rng: random.Random) -> dict[str, Feed]:
    """Each stream of a model for some seconds."""
    feeds = {}
    for stream in model.streams:
        period = SECOND_US / stream.rate_per_s
        offset = rng.random() * period
        count = int((seconds * SECOND_US - offset) / period) + 1
        values = [
            max(1, round(stream.distinct[index])) if index in stream.distinct else 0
            for index in range(len(model.graph.classes))
        ]
        arrivals = [
            (int(offset + n * period), tuple(rng.randrange(d) if d else None for d in values))
            for n in range(count)
        ]
        feeds[stream.alias] = feed_of(range_us(window_us(stream)), arrivals)
    return feeds


def topology_graph(edges: Sequence[Sequence[str]], aliases: Sequence[str]) -> JoinGraph:
    """A join graph with an attribute class for each edge."""
    return JoinGraph(
        tuple(aliases),
        tuple(equality(*((alias, f"a{n}") for alias in edge), type_=None) for n, edge in enumerate(edges)),
    )


def two_streams(source: JoinSide, target: JoinSide, link: Link, interval_s: float) -> SemijoinModel:
    """S1 at N1 and S2 at N2, joined by one attribute."""
    graph = topology_graph([("S1", "S2")], ("S1", "S2"))
    streams = [
        SiteStream(
            f"S{n}",
            f"N{n}",
            rate_per_s=side.rate_per_s,
            window_tuples=side.window_tuples,
            tuple_bytes=side.tuple_bytes,
            distinct={0: side.distinct},
            key_bytes={0: side.key_bytes},
        )
        for n, side in ((1, source), (2, target))
    ]
    return SemijoinModel(graph, tuple(streams), network=Network(default=link), interval_s=interval_s)
