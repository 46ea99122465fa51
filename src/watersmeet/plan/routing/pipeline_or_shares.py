"""Pipeline or hypercube: what each way of routing a join moves, and what it keeps.

*Shares* (`shares`) is one stage: every tuple is sent once, with copies along the axes it has no value of, and
no partial result is ever sent or kept. *Pipeline* (DHTJoin's type 2, `dhtjoin`) is a stage per join of a
bushy tree: every tuple is sent once without copies, but partial results are sent on to the next stage and
kept there for their lifetime.

    moved   bytes/s through the shuffle    shares: sum of bytes_i * copies_i
                                           pipeline: sum of bytes_i, and the bytes/s of each partial result
    kept    bytes of state                 shares: sum of W_i * size_i * copies_i
                                           pipeline: sum of W_i * size_i, and W * size of each partial result

Guarantee: `choose_routing` takes the one that moves less; where both move the same, within `SAME`, the one
that keeps less; where that is the same too, shares, which is a single stage. What is moved decides because
each byte moved is also a byte written to state. A query of type 1 is one stage either way. The pipeline is
the tree whose partial results have the fewest bytes/s.

Where we are coarse: rates are those of the rate model, and tuples count at their full size.

Example: R(a), S(a, b), T(b) with 100 bytes/s each over 4 buckets. Shares 2 x 2 move 100 * 2 + 100 + 100 * 2;
a pipeline moves 300 and what R and S have in common, so it wins when that is below 200 bytes/s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from watersmeet.plan.routing.shares import Hypercube, plan_shares
from watersmeet.plan.routing.tree_stages import StagedTree
from watersmeet.plan.sites.dhtjoin import optimize_dhtjoin
from watersmeet.plan.sites.plan_tree import MJoin
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query

SAME = 0.01  # estimates closer than this are alike


@dataclass(frozen=True)
class Delivery:
    """An input or a partial result on its way to a stage, where it is kept."""

    name: str
    stage: str
    copies: int
    bytes_per_s: float  # copies included
    state_bytes: float  # copies included

    def to_json(self) -> dict[str, Any]:
        return {
            "input": self.name,
            "stage": self.stage,
            "copies": self.copies,
            "bytes_per_s": self.bytes_per_s,
            "state_bytes": self.state_bytes,
        }


class _Priced:
    """What a routing moves and keeps, all of its deliveries together."""

    deliveries: tuple[Delivery, ...]

    @property
    def bytes_per_s(self) -> float:
        """What the shuffle carries."""
        return math.fsum(delivery.bytes_per_s for delivery in self.deliveries)

    @property
    def state_bytes(self) -> float:
        """What all the stages keep."""
        return math.fsum(delivery.state_bytes for delivery in self.deliveries)

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(delivery.stage for delivery in self.deliveries))


@dataclass(frozen=True)
class PricedShares(_Priced):
    """A hypercube and what reaches its one stage."""

    strategy: ClassVar = "shares"

    hypercube: Hypercube
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True)
class PricedPipeline(_Priced):
    """A tree of joins and what reaches each of its stages."""

    strategy: ClassVar = "pipeline"

    tree: MJoin
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True)
class PricedStages(_Priced):
    """The stages of a tree of outer, semi and anti joins, and what reaches each of them."""

    strategy: ClassVar = "pipeline"

    staged: StagedTree
    deliveries: tuple[Delivery, ...]


PricedRouting = PricedShares | PricedPipeline | PricedStages


def price_shares(query: Query, statistics: Statistics, buckets: int) -> PricedShares:
    """The hypercube of a query, priced."""
    return price_hypercube(query, statistics, plan_shares(query, statistics, buckets))


def price_hypercube(query: Query, statistics: Statistics, hypercube: Hypercube) -> PricedShares:
    """A hypercube, priced: what it moves and keeps."""
    rates = rate_model(query, statistics)
    deliveries = tuple(
        Delivery(
            source.alias,
            "join",
            copies := hypercube.replication(source.alias),
            source.rate_per_s * source.tuple_bytes * copies,
            source.window_tuples * source.tuple_bytes * copies,
        )
        for source in rates.sources
    )
    return PricedShares(hypercube, deliveries)


def price_pipeline(query: Query, statistics: Statistics) -> PricedPipeline:
    """The pipeline of a query that moves the fewest bytes, priced; it takes two inputs or more."""
    rates = rate_model(query, statistics)
    tree = optimize_dhtjoin(query.graph, rates, counted="bytes").root
    return PricedPipeline(tree, tuple(_deliveries(tree, rates)))


def _deliveries(join: MJoin, rates: RateModel) -> Iterator[Delivery]:
    """What every stage of a tree receives, the stages that feed others first."""
    for child in join.inputs:
        if isinstance(child, MJoin):
            yield from _deliveries(child, rates)
    for child in join.inputs:
        kept = rates.window(rates.mask(child.streams)) * child.tuple_bytes
        yield Delivery(child.name, join.site, 1, child.bytes_per_s, kept)


def choose_routing(shares: PricedShares, pipeline: PricedPipeline) -> PricedShares | PricedPipeline:
    """The one that moves less, else keeps less, else the single stage."""
    for ours, theirs in (
        (shares.bytes_per_s, pipeline.bytes_per_s),
        (shares.state_bytes, pipeline.state_bytes),
    ):
        if not math.isclose(ours, theirs, rel_tol=SAME):
            return shares if ours < theirs else pipeline
    return shares
