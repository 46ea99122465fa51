"""Queries for planner tests, without SQL: a join graph, a window each, and statistics by alias."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

from watersmeet.plan.statistics.statistics import AttributeStatistics, Network, Statistics, StreamStatistics
from watersmeet.query import (
    Attribute,
    AttributeClass,
    Column,
    Input,
    JoinGraph,
    Query,
    Stream,
    Window,
    column_expr,
    range_us,
)

TOPOLOGIES = ("chain", "star", "cycle", "fully-connected", "type 1")


def join_graph(aliases: Sequence[str], classes: Sequence[Sequence[str]]) -> JoinGraph:
    """A graph whose n-th class joins column `cn` of its members."""
    return JoinGraph(
        tuple(aliases),
        tuple(
            AttributeClass(tuple(Attribute(alias, column_expr(alias, f"c{n}")) for alias in members))
            for n, members in enumerate(classes)
        ),
    )


def edges(topology: str, aliases: Sequence[str]) -> list[tuple[str, ...]]:
    """The attribute classes of a topology over these inputs."""
    match topology:
        case "chain":
            return list(itertools.pairwise(aliases))
        case "star":
            return [(aliases[0], other) for other in aliases[1:]]
        case "cycle" if len(aliases) > 2:
            return [*itertools.pairwise(aliases), (aliases[-1], aliases[0])]
        case "type 1":
            return [tuple(aliases)]
        case _:
            return list(itertools.combinations(aliases, 2))


def join_query(
    aliases: Sequence[str],
    classes: Sequence[Sequence[str]],
    windows: Mapping[str, Window] | None = None,
) -> Query:
    """A query over streams named like their aliases, each under 10 s unless another window is given."""
    columns = tuple(Column(f"c{n}", "bigint") for n in range(len(classes)))
    inputs = tuple(
        Input(alias, Stream(alias, columns), (windows or {}).get(alias, range_us(10_000_000)))
        for alias in aliases
    )
    return Query(inputs, join_graph(aliases, classes), ())


def random_statistics(query: Query, rng: random.Random, *, sites: int = 0) -> Statistics:
    """Rates, sizes and distinct counts at random; each stream at its own site unless a number is given."""
    streams = {}
    for n, item in enumerate(query.inputs):
        distinct = float(rng.choice([10, 20, 50, 100, 500]))
        streams[item.alias] = StreamStatistics(
            rate_per_s=float(rng.choice([1, 5, 10, 50, 100])),
            tuple_bytes=float(rng.choice([20, 100, 500, 1000])),
            site=f"n{rng.randrange(sites) if sites else n}",
            attributes={
                column.name: AttributeStatistics(distinct=distinct) for column in item.stream.columns
            },
        )
    return Statistics(streams, network=Network())
