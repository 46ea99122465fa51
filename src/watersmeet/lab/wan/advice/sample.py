"""Tuples to try a plan on: sampled from real sources, or drawn as the statistics describe them.

A sample has for each input of the query, in order of time, every tuple's event time and its value in each
class of the join graph; a tuple without values is one that a filter or a NULL keeps out of all answers, and
which still counts under a ROWS window. The executors of PMJoin and of semijoins are both fed from it, so they
see the same tuples.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from watersmeet.lab.simulation import SECOND_US
from watersmeet.lab.wan.arrivals import Arrival, arrivals_from
from watersmeet.lab.wan.draws import draw_arrivals
from watersmeet.lab.wan.feed import Feed, feed_of
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Statistics,
    StreamStatistics,
    attribute_name,
)
from watersmeet.query import Query

Values = tuple[Hashable, ...]  # by attribute class; None where the input has no part in the class
SampledTuple = tuple[int, Values | None]


@dataclass(frozen=True)
class SiteSample:
    """The tuples of every input, in FROM order, and a text that says where they are from."""

    inputs: tuple[Sequence[SampledTuple], ...]
    origin: str
    start_us: int
    end_us: int  # up to when every input is known

    def arrivals(self, query: Query) -> list[Arrival]:
        """For PMJoin: tuples with their lifetimes, in the order in which their sites know them."""
        return arrivals_from(query, self.feeds(query))

    def feeds(self, query: Query) -> dict[str, Feed]:
        """For semijoins: the same tuples as feeds."""
        feeds = {}
        for item, tuples in zip(query.inputs, self.inputs, strict=True):
            feed = feed_of(item.window, [(ts, values or ()) for ts, values in tuples])
            feeds[item.alias] = replace(feed, members=tuple(one for one in feed.members if one.keys))
        return feeds

    def until(self, end_us: int) -> SiteSample:
        """Only the tuples before an instant."""
        return replace(
            self, inputs=tuple([one for one in tuples if one[0] < end_us] for tuples in self.inputs)
        )


def draw_sample(
    query: Query, statistics: Statistics, seconds: float, *, seed: int, reason: str
) -> SiteSample:
    """A sample with the rates and values that statistics describe; inputs of one stream are drawn apart."""
    model = rate_model(query, _drawable(query, statistics))
    rng = np.random.default_rng(seed)
    inputs: list[list[SampledTuple]] = [[] for _ in query.inputs]
    width = range(len(query.graph.classes))
    for arrival in draw_arrivals(query, model, seconds, rng):
        keys = arrival.tuple_.keys
        inputs[arrival.input].append((arrival.tuple_.t, tuple(keys.get(cls) for cls in width)))
    for number, (item, source) in enumerate(zip(query.inputs, model.sources, strict=True)):
        kept = statistics.filter_selectivity(item)
        if item.window.counts_rows and kept < 1:
            refused = round((statistics.stream(item.stream.name).rate_per_s - source.rate_per_s) * seconds)
            inputs[number] += [
                (int(ts), None) for ts in rng.integers(round(seconds * SECOND_US), size=refused)
            ]
        inputs[number].sort(key=lambda one: one[0])
    origin = f"tuples drawn from the statistics ({reason})"
    return SiteSample(tuple(inputs), origin, 0, round(seconds * SECOND_US))


def taken_sample(inputs: Sequence[Sequence[SampledTuple]]) -> SiteSample:
    """A sample of real tuples; it reaches from where all inputs have begun to where the first one ends."""
    empty = [number for number, tuples in enumerate(inputs) if not tuples]
    start = max((tuples[0][0] for tuples in inputs if tuples), default=0)
    end = start if empty else min(tuples[-1][0] for tuples in inputs)
    kept = tuple([one for one in tuples if one[0] >= start] for tuples in inputs)
    return SiteSample(kept, "tuples of the sources", start, end)


def _drawable(query: Query, statistics: Statistics) -> Statistics:
    """Statistics to draw values from: a given selectivity of two unmeasured columns as 1/f values each."""
    streams = dict(statistics.streams)
    given = dict(statistics.selectivities)
    for cls in query.graph.classes:
        sides = [(query.input(side.alias).stream.name, attribute_name(side)) for side in cls.attributes]
        if len(sides) != 2:
            continue
        known = statistics.given_selectivity(*sides[0], *sides[1])
        measured = any(column in statistics.stream(stream).attributes for stream, column in sides)
        if known and not measured:
            for stream, column in sides:
                before: StreamStatistics = streams.get(stream) or statistics.stream(stream)
                attributes: Mapping[str, AttributeStatistics] = {
                    **before.attributes,
                    column: AttributeStatistics(distinct=max(1 / known, 1.0)),
                }
                streams[stream] = replace(before, attributes=attributes)
            given = {pair: share for pair, share in given.items() if pair != _pair(sides)}
    return replace(statistics, streams=streams, selectivities=given)


def _pair(sides: Sequence[tuple[str, str]]) -> frozenset[str]:
    return frozenset(f"{stream}.{column}" for stream, column in sides)
