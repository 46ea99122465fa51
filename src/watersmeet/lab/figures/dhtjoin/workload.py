"""The workload of DHTJoin's experiments: constant-rate streams, queries that arrive at random.

After Palma, Akbarinia, Pacitti and Valduriez, DHTJoin (extended version), section 6, and Euro-Par 2008,
section 4. A new tuple chooses a relation uniformly and draws each attribute from a Zipf distribution; queries
arrive as a Poisson process, of type 1 (one attribute joins all) or type 2 (a chain of different attributes).

Readings taken: the rate of 30 tuples a second is that of all relations together, since each new tuple chooses
its relation; and the number of joins of a type-1 query, which the papers do not give, is two, as in their
example q1. Which values are frequent is the same in all attributes, or differs (`value_order`): the papers do
not say. Tuples of one relation enter at one node (section 2.1), queries at any.

Everything is a function of the parameters and the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.dhtjoin.network import QueryArrival, TupleArrival
from watersmeet.lab.simulation import SECOND_US, ValueOrder, equality, join_query, zipf_shares
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Column, Input, Output, Query, Stream, column_expr, range_us


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The parameters of an experiment; the defaults are the extended version's."""

    nodes: int = 1024
    relations: int = 10
    attributes: int = 10
    tuples_per_s: float = 30.0
    domain: int = 1000
    zipf: float = 0.9
    queries_per_s: float = 0.02
    query_type: int = 1
    joins: int = 2
    window_s: float = 50.0
    duration_s: float = 300.0
    value_order: ValueOrder = "shared"  # whether the same values are frequent in all attributes
    seed: int = 1

    def __post_init__(self) -> None:
        if self.query_type not in (1, 2):
            raise ConfigurationError(f"queries are of type 1 or 2, not {self.query_type}")
        if not 1 <= self.joins < self.relations:
            raise ConfigurationError(
                f"{self.joins} joins need {self.joins + 1} of {self.relations} relations"
            )
        if min(self.tuples_per_s, self.queries_per_s, self.window_s, self.duration_s) <= 0:
            raise ConfigurationError("rates, windows and durations are above zero")

    @property
    def end_us(self) -> int:
        return round(self.duration_s * SECOND_US)


def streams(workload: Workload) -> tuple[Stream, ...]:
    """The schema: relations r0, r1, ... of integer attributes a0, a1, ..."""
    columns = tuple(Column(f"a{n}", "bigint") for n in range(workload.attributes))
    return tuple(Stream(f"r{n}", columns) for n in range(workload.relations))


def sources(workload: Workload) -> dict[str, int]:
    """The node at which the tuples of each relation enter."""
    rng = random.Random(f"{workload.seed} sources")
    return {stream.name: rng.randrange(workload.nodes) for stream in streams(workload)}


def tuple_arrivals(workload: Workload) -> Iterator[TupleArrival]:
    """The tuples, in order, at a constant rate."""
    rng = np.random.default_rng([workload.seed, 1])
    count = int(workload.duration_s * workload.tuples_per_s)
    shares = zipf_shares(workload.domain, workload.zipf)
    relations = rng.integers(workload.relations, size=count)
    values = rng.choice(workload.domain, size=(count, workload.attributes), p=shares)
    orders = _orders(workload)
    entry = sources(workload)
    names = [stream.name for stream in streams(workload)]
    columns = [f"a{n}" for n in range(workload.attributes)]
    if orders is not None:
        values = orders[relations[:, None], np.arange(workload.attributes), values]
    for number, (relation, row) in enumerate(zip(relations.tolist(), values.tolist(), strict=True)):
        at_us = round(number * SECOND_US / workload.tuples_per_s)
        name = names[relation]
        yield TupleArrival(at_us, entry[name], name, Tuple(at_us, dict(zip(columns, row, strict=True))))


def _orders(workload: Workload) -> npt.NDArray[np.int64] | None:
    """For each attribute of each relation its values, the most frequent first; None: the same for all."""
    if workload.value_order == "shared":
        return None
    rng = np.random.default_rng([workload.seed, 2])
    dimensions = (workload.relations, workload.attributes, workload.domain)
    return rng.permuted(np.broadcast_to(np.arange(workload.domain), dimensions), axis=2)


def query_arrivals(workload: Workload) -> list[QueryArrival]:
    """The queries, in order, as a Poisson process; the first comes at the start, so that there is work."""
    rng = random.Random(f"{workload.seed} queries")
    arrivals: list[QueryArrival] = []
    at_s = 0.0
    while at_s < workload.duration_s:
        qid = f"q{len(arrivals)}"
        # Each query has a generator of its own, so that other rates or more joins leave the rest as it was.
        query = random_query(workload, random.Random(f"{workload.seed} {qid}"))
        arrivals.append(QueryArrival(round(at_s * SECOND_US), rng.randrange(workload.nodes), qid, query))
        at_s += rng.expovariate(workload.queries_per_s)
    return arrivals


def random_query(workload: Workload, rng: random.Random) -> Query:
    """A join of distinct random relations: on one attribute, or a chain over different ones.

    With one join more it is the same query and one relation more.
    """
    everyone = list(streams(workload))
    rng.shuffle(everyone)
    chosen = everyone[: workload.joins + 1]
    if workload.query_type == 1:
        column = f"a{rng.randrange(workload.attributes)}"
        sides = [tuple((stream.name, column) for stream in chosen)]
    else:
        sides, left = [], rng.randrange(workload.attributes)
        for before, after in pairwise(chosen):
            right = rng.randrange(workload.attributes)
            sides.append(((before.name, f"a{left}"), (after.name, f"a{right}")))
            left = rng.choice([n for n in range(workload.attributes) if n != right])
    window = range_us(round(workload.window_s * SECOND_US))
    return join_query(
        [Input(stream.name, stream, window) for stream in chosen],
        [equality(*side) for side in sides],
        [Output("a0", column_expr(chosen[0].name, "a0", "bigint"))],
    )


def statistics(workload: Workload) -> Statistics:
    """What the planner may know of such streams: their rates, and how many values an attribute has."""
    rate = workload.tuples_per_s / workload.relations
    columns = {f"a{n}": AttributeStatistics(distinct=workload.domain) for n in range(workload.attributes)}
    return Statistics(
        {stream.name: StreamStatistics(rate, attributes=columns) for stream in streams(workload)}
    )
