"""PMJoin's workload (DASFAA 2006, section 4): streams at nodes, and how often each has each value.

Values are the integers 1..N. A stream's values are uniform, normal around the middle, Zipf, or self-similar
(the first h*N values get 1-h of the tuples). *Similar* distributions are Zipf of skews from 0.1 to 0.3;
*different* ones are drawn from all kinds. In a *contiguous* hot spot frequent values lie beside one
another, as the distributions have them; in a *random* one they are spread over the range. All tuples count
as one byte, results too, so costs in bytes/s are the paper's tuples/s.

Readings taken where the paper is silent:

- The normal distribution's standard deviation is 5% to 25% of the range.
- A random hot spot spreads similar distributions in one order for all streams (else they were not similar),
  and different ones in an order of each stream's own.
- Rates and windows are drawn uniformly from the ranges the paper gives; where it gives none (Figure 5), from
  those of its section 4.2.

Example: two streams of 10 tuples/s at n0 and n1, windows of 20 s, values 1..100 of Zipf skew 0.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from watersmeet.lab.simulation import SECOND_US, equality, join_query
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.rate_model import RateModel, Source
from watersmeet.plan.statistics.value_groups import Cell, FloatArray, ValueGroups
from watersmeet.query import (
    Column,
    Input,
    Query,
    Stream,
    range_us,
)

Likeness = Literal["similar", "different"]
HotSpot = Literal["contiguous", "random"]


@dataclass(frozen=True, eq=False)
class SiteStream:
    """A stream at its node: its rate, its window, and its share of each value."""

    node: str
    rate_per_s: float
    window_s: float
    shares: FloatArray  # of the values 1..N


@dataclass(frozen=True, eq=False)
class SiteJoin:
    """A query over streams at sites, and the model of it."""

    query: Query
    model: RateModel


def draw_shares(likeness: Likeness, values: int, rng: np.random.Generator) -> FloatArray:
    """A stream's share of each value, frequent ones beside one another."""
    kind = "zipf" if likeness == "similar" else rng.choice(["uniform", "normal", "zipf", "self-similar"])
    ranks = np.arange(1, values + 1, dtype=np.float64)
    match kind:
        case "uniform":
            weights = np.ones(values)
        case "normal":
            deviation = values * rng.uniform(0.05, 0.25)
            weights = np.exp(-(((ranks - (values + 1) / 2) / deviation) ** 2) / 2)
        case "zipf":
            weights = ranks ** -(rng.uniform(0.1, 0.3) if likeness == "similar" else rng.uniform(0.1, 1.5))
        case _:
            head = rng.uniform(0.1, 0.9)
            ends = (np.arange(values + 1) / values) ** (math.log(1 - head) / math.log(head))
            weights = np.diff(ends)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def draw_values(
    likeness: Likeness, hot_spot: HotSpot, streams: int, values: int, rng: np.random.Generator
) -> list[FloatArray]:
    """The value shares of some streams."""
    shares = [draw_shares(likeness, values, rng) for _ in range(streams)]
    if hot_spot == "contiguous":
        return shares
    if likeness == "similar":
        order = rng.permutation(values)
        return [row[order] for row in shares]
    return [rng.permutation(row) for row in shares]


def join_on_one_attribute(streams: Sequence[SiteStream]) -> SiteJoin:
    """All streams joined on the same attribute."""
    return join_on(streams, [tuple(range(len(streams)))], [np.array([stream.shares for stream in streams])])


def join_on(
    streams: Sequence[SiteStream], classes: Sequence[Sequence[int]], shares: Sequence[FloatArray]
) -> SiteJoin:
    """Streams joined on several attributes: which streams each joins, and their shares of its values."""
    columns = tuple(Column(f"k{n}", "bigint") for n in range(len(classes)))
    names = [f"s{n}" for n in range(len(streams))]
    inputs = tuple(
        Input(name, Stream(name, columns, site=stream.node), range_us(round(stream.window_s * SECOND_US)))
        for name, stream in zip(names, streams, strict=True)
    )
    query = join_query(
        inputs,
        [equality(*((names[m], f"k{n}") for m in members)) for n, members in enumerate(classes)],
    )
    sources = [
        Source.of(name, stream.node, stream.rate_per_s, stream.rate_per_s * stream.window_s)
        for name, stream in zip(names, streams, strict=True)
    ]
    attributes = [
        JoinAttribute(cls.pretty(), tuple(members), _groups(rows))
        for cls, members, rows in zip(query.graph.classes, classes, shares, strict=True)
    ]
    return SiteJoin(query, RateModel(sources, attributes, result_tuple_bytes=1.0))


def _groups(shares: FloatArray) -> ValueGroups:
    """Every value known: the paper's finest substreams."""
    count = shares.shape[1]
    cells = tuple(Cell(value=value) for value in range(1, count + 1))
    return ValueGroups(cells, np.arange(count), np.ones(count), shares)
