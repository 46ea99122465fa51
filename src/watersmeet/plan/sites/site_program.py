"""What one site does of a plan: which tuples it sends where, which joins it runs, what arrives on which link.

Every site computes the same placement from the same file and statistics, and takes its own part of it. The
fingerprint is of the whole, so two sites that go by different plans find out at the first row that crosses.

A *send* is one way that rows take, named by where they are from and where they go: `a>3.0` are tuples of
input a on their way to input 0 of join 3, `#1>3.1` are results of join 1. Where values decide, each port has
a send with a *guard*, and a row takes exactly one of the sends of its origin.

An *origin* is an input of the query, by its alias, or a join, `#1`. Progress is reported by origin.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from watersmeet.plan.sites.placement import PlacedJoin, Placement, Port, Route, Split
from watersmeet.plan.sites.value_router import ValueRouter
from watersmeet.query import Query


@dataclass(frozen=True, eq=False)
class Guard:
    """Lets rows through whose value of an attribute class is in some partitions of a router."""

    attribute: int
    router: ValueRouter
    partitions: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Send:
    """One way that rows take from an origin to a port."""

    origin: str
    source: str  # the site they leave
    target: str  # the site they go to
    port: Port
    aliases: tuple[str, ...]  # that the rows consist of
    tuple_bytes: float  # of a row, as the statistics have it
    guard: Guard | None = None

    @property
    def name(self) -> str:
        return f"{self.origin}>{self.port.name}"

    @property
    def crosses(self) -> bool:
        """Whether it takes a link."""
        return self.source != self.target


@dataclass(frozen=True, kw_only=True)
class SiteProgram:
    """One site's part of a placement."""

    site: str
    fingerprint: str  # of the whole placement
    aliases: tuple[str, ...]  # inputs of the query that arrive here
    joins: tuple[PlacedJoin, ...]  # that run here; those without a route make answers
    sends: tuple[Send, ...]  # of what arrives or is made here
    receives: tuple[Send, ...]  # what comes over links

    @property
    def targets(self) -> tuple[str, ...]:
        """The sites that something is sent to."""
        return tuple(dict.fromkeys(send.target for send in self.sends if send.crosses))

    @property
    def sources(self) -> tuple[str, ...]:
        """The sites that something comes from."""
        return tuple(dict.fromkeys(send.source for send in self.receives))


def origin_of_join(number: int) -> str:
    """The name of a join as an origin; no alias starts with this sign."""
    return f"#{number}"


def all_sends(placement: Placement) -> tuple[Send, ...]:
    """Every way that rows take, those that stay at their site included."""
    found: list[Send] = []
    for entry in placement.entries:
        found += _sends(placement, entry.alias, entry.site, (entry.alias,), entry.tuple_bytes, entry.route)
    for join in placement.joins:
        origin = origin_of_join(join.number)
        found += _sends(placement, origin, join.site, join.aliases, join.result_bytes, join.route)
    return tuple(found)


def site_programs(query: Query, placement: Placement) -> dict[str, SiteProgram]:
    """The program of each site that has something to do."""
    fingerprint, sends = fingerprint_of(query, placement), all_sends(placement)
    return {
        site: SiteProgram(
            site=site,
            fingerprint=fingerprint,
            aliases=tuple(entry.alias for entry in placement.entries if entry.site == site),
            joins=tuple(join for join in placement.joins if join.site == site),
            sends=tuple(send for send in sends if send.source == site),
            receives=tuple(send for send in sends if send.target == site and send.crosses),
        )
        for site in placement.sites
    }


def fingerprint_of(query: Query, placement: Placement) -> str:
    """The same for the same query and placement, in every process; another for any other."""
    text = json.dumps(placement_to_json(query, placement), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def placement_to_json(query: Query, placement: Placement) -> dict[str, Any]:
    """All that the sites must agree on."""
    return {
        "query": query.pretty(),
        "streams": [stream.pretty() for stream in query.streams],
        "joins": [
            {
                "number": join.number,
                "site": join.site,
                "inputs": [list(names) for names in join.inputs],
                "route": _route_to_json(join.route),
                "bytes": join.result_bytes,
            }
            for join in placement.joins
        ],
        "entries": [
            {
                "input": entry.alias,
                "site": entry.site,
                "route": _route_to_json(entry.route),
                "bytes": entry.tuple_bytes,
            }
            for entry in placement.entries
        ],
    }


def _sends(
    placement: Placement, origin: str, source: str, aliases: tuple[str, ...], size: float, route: Route
) -> Iterator[Send]:
    for port, guard in _ways(route):
        yield Send(
            origin=origin,
            source=source,
            target=placement.joins[port.join].site,
            port=port,
            aliases=aliases,
            tuple_bytes=size,
            guard=guard,
        )


def _ways(route: Route) -> Iterator[tuple[Port, Guard | None]]:
    """The ports of a route, each once; a split whose partitions all go one way asks for no value."""
    if isinstance(route, Port):
        yield route, None
    elif isinstance(route, Split):
        ports = dict.fromkeys(route.ports)
        for port in ports:
            partitions = frozenset(n for n, other in enumerate(route.ports) if other == port)
            yield port, Guard(route.attribute, route.router, partitions) if len(ports) > 1 else None


def _route_to_json(route: Route) -> Any:
    if route is None:
        return None
    if isinstance(route, Port):
        return route.name
    router = route.router
    return {
        "attribute": route.attribute,
        "kind": router.kind,
        "cells": [[cell.value, cell.low, cell.high] for cell in router.cells],
        "partitions": [[part.cells.tolist(), part.weights.tolist()] for part in router.partitions],
        "ports": [port.name for port in route.ports],
    }
