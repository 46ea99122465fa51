"""A given selectivity as values, for those who ask how often a value comes and not how often two meet.

Where nothing is known of two columns but the selectivity f of their equality, they are taken to have the
same 1/f values, equally often. A selectivity beside measured columns stays what it is, a correction of the
rate model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Statistics,
    StreamStatistics,
    attribute_name,
)
from watersmeet.query import Query


def given_as_values(query: Query, statistics: Statistics) -> Statistics:
    """The statistics with 1/f values in each of two unmeasured columns of a given selectivity f."""
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
