"""Tuples to try a plan on: sampled from real sources, or drawn as the statistics describe them.

A sample has for each input of the query, in order of time, every tuple's event time and its value in each
class of the join graph; a tuple without values is one that a filter or a NULL keeps out of all answers, and
which still counts under a ROWS window. The executors of PMJoin and of semijoins are both fed from it, so they
see the same tuples.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from watersmeet.lab.simulation import SECOND_US
from watersmeet.lab.wan.arrivals import Arrival, arrivals_from
from watersmeet.lab.wan.draws import draw_arrivals
from watersmeet.lab.wan.feed import Feed, feed_of
from watersmeet.plan.statistics.given_values import given_as_values
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import Statistics
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
    model = rate_model(query, given_as_values(query, statistics))
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
