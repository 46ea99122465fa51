"""PMJoin: streams partitioned by value, a join plan for each partition, fewest bytes over the network.

Paper: Zhou, Yan, Yu, Zhou, "PMJoin: Optimizing Distributed Multi-way Stream Joins by Stream Partitioning",
DASFAA 2006. Algorithm 1 plans the whole streams; where that plan joins on one attribute, the streams are
partitioned by its value (section 3.3) and Algorithm 1 plans each group of substreams on its own. A value that
is rare in two streams and frequent in a third is then joined where it is frequent, whatever the other values
do.

Guarantees: the answers are those of the query, as tuples that join share their partition. With one partition
the plan is the unpartitioned one. With optimal plans per partition a finer partitioning never costs more in
the model; with Algorithm 1's, it may.

Where we differ: costs are always in bytes/s. Answers are not shipped anywhere, but the results of a PMJoin
below another join are, from each partition's last site to that join. An attribute of whose values nothing is
known but their number is not partitioned, as nothing could differ between its partitions.

Example (the paper's Example 1, one tuple a byte): partition a ships s2's few tuples to n1 and what they match
on to n3, 0.036 bytes/s, while partition b goes from n3 over n1 to n2.

    PMJoin on s1.dest = s2.dest = s3.dest
    ├─ partition a
    │  └─ MJoin at n3
    │     ├─ MJoin at n1
    │     │  ├─ s2 at n2
    │     │  └─ s1 at n1
    │     └─ s3 at n3
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.plan_tree import (
    LinkLoad,
    MJoin,
    PartitionPlan,
    PlanNode,
    PMJoin,
    StreamLeaf,
    cost_bytes_per_s,
    links,
    operators,
)
from watersmeet.plan.sites.pmjoin.exhaustive import optimal
from watersmeet.plan.sites.pmjoin.find_partition import Candidate, find_partition, select_partitions
from watersmeet.plan.sites.pmjoin.heuristic import (
    Operand,
    centralized,
    leaf,
    local,
    simple,
    source_operands,
    stream_join_opt,
)
from watersmeet.plan.sites.stream_partition import Partition, check_partitioning, partition_values
from watersmeet.plan.sites.value_router import ValueRouter
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.plan.statistics.value_groups import FloatArray
from watersmeet.query import Query

Optimizer = Literal["heuristic", "optimal", "local", "simple", "centralized"]

OPTIMIZERS: dict[str, Callable[[RateModel, Sequence[Operand]], Operand]] = {
    "heuristic": stream_join_opt,
    "optimal": optimal,
    "local": local,
    "simple": simple,
    "centralized": centralized,
}


@dataclass(frozen=True)
class CostTerm:
    """One part of a plan's cost, with its name."""

    name: str
    bytes_per_s: float


@dataclass(frozen=True)
class PmjoinPlan:
    """A plan with its communication cost, and what makes it up."""

    strategy: str
    root: PlanNode
    links: tuple[LinkLoad, ...]
    cost_bytes_per_s: float

    @property
    def terms(self) -> tuple[CostTerm, ...]:
        """The cost, one shipped stream a term."""
        return tuple(
            CostTerm(f"ship {load.stream} from {load.source} to {load.target}", load.bytes_per_s)
            for load in self.links
        )

    @property
    def partitions(self) -> tuple[PartitionPlan, ...]:
        """The plans of all partitions; empty where nothing is partitioned."""
        found = (node for node in operators(self.root) if isinstance(node, PMJoin))
        return tuple(part for node in found for part in node.partitions)

    def pretty(self) -> str:
        return self.root.pretty()

    def to_json(self) -> dict[str, Any]:
        return {
            "strategy": self.strategy,
            "cost": self.cost_bytes_per_s,
            "unit": "bytes/s",
            "plan": self.root.to_json(),
            "links": [load.to_json() for load in self.links],
        }


def plan_pmjoin(
    query: Query,
    statistics: Statistics,
    *,
    partitions: int,
    partitioning: str = "rate",
    optimizer: Optimizer = "heuristic",
    seed: int = 0,
) -> PmjoinPlan:
    """Partition where it is possible, and plan each partition on its own."""
    model = rate_model(query, statistics)
    root = partitioned_plan(model, partitions, partitioning, optimizer=optimizer, seed=seed)
    return _finished("pmjoin", root)


def plan_distributed(
    query: Query, statistics: Statistics, *, optimizer: Optimizer = "heuristic"
) -> PmjoinPlan:
    """The paper's distributed scheme: joins at several sites, streams whole."""
    return _finished("distributed", unpartitioned_plan(rate_model(query, statistics), optimizer))


def plan_centralized(query: Query, statistics: Statistics) -> PmjoinPlan:
    """The paper's centralized scheme: one join, at the site that costs least."""
    return _finished("centralized", unpartitioned_plan(rate_model(query, statistics), "centralized"))


def unpartitioned_plan(model: RateModel, optimizer: Optimizer = "heuristic") -> PlanNode:
    """The plan one optimizer finds for whole streams."""
    apart = model.unreachable()
    if apart:
        raise ConfigurationError(f"no condition connects {model.sources[0].alias} with {model.name(apart)}")
    if optimizer not in OPTIMIZERS:
        raise ConfigurationError(f"no optimizer '{optimizer}': choose one of {', '.join(OPTIMIZERS)}")
    return OPTIMIZERS[optimizer](model, source_operands(model)).node


def partitioned_plan(
    model: RateModel,
    partitions: int,
    partitioning: str,
    *,
    optimizer: Optimizer = "heuristic",
    seed: int = 0,
) -> PlanNode:
    """PMJoin over a model: Algorithm 1, then Algorithm 2 and the selection, then a plan per partition."""
    check_partitioning(partitioning, partitions)
    plan = unpartitioned_plan(model, optimizer)
    if partitions == 1:
        return plan
    separable = [len(attribute.groups.cells) > 1 for attribute in model.attributes]
    candidates = [found for found in find_partition(model, plan) if separable[found.attribute]]
    chosen = select_partitions(candidates)
    return Partitioner(
        model=model,
        chosen=chosen,
        partitions=partitions,
        partitioning=partitioning,
        optimizer=optimizer,
        seed=seed,
    ).rebuild(plan, None)


@dataclass(frozen=True, kw_only=True)
class Partitioner:
    """Replaces the chosen operators of a plan by PMJoins."""

    model: RateModel
    chosen: Sequence[Candidate]
    partitions: int
    partitioning: str
    optimizer: Optimizer
    seed: int

    def rebuild(self, node: PlanNode, target: str | None) -> PlanNode:
        """The plan below a node; `target` is the site of the MJoin above it, if any."""
        if not isinstance(node, MJoin):
            return node
        candidate = next((candidate for candidate in self.chosen if candidate.operator is node), None)
        if candidate is not None:
            inputs = [self.rebuild(child, None) for child in candidate.inputs]
            plain = tuple(child for child in inputs if not isinstance(child, PMJoin))
            parts = self.parts(candidate.attribute, plain)
            if len(parts) > 1:
                attribute = self.model.attributes[candidate.attribute]
                plans = self.plans(candidate.attribute, plain, target, parts)
                router = ValueRouter(self.partitioning, attribute.groups.cells, parts)
                return PMJoin(
                    attribute=attribute.name,
                    inputs=plain,
                    partitions=plans,
                    rate_per_s=node.rate_per_s,
                    tuple_bytes=node.tuple_bytes,
                    router=router,
                )
        return replace(node, inputs=tuple(self.rebuild(child, node.site) for child in node.inputs))

    def parts(self, attribute: int, inputs: Sequence[StreamLeaf | MJoin]) -> tuple[Partition, ...]:
        """The values of an attribute, partitioned by the rates that one PMJoin's inputs have of them."""
        groups = self.model.attributes[attribute].groups
        masks = [self.model.mask(node.streams) for node in inputs]
        return partition_values(
            self.partitioning,
            groups.cells,
            groups.cell_sums(np.array([self._rates(attribute, mask) for mask in masks])),
            self.partitions,
            counts=groups.cell_counts(),
            seed=self.seed,
        )

    def plans(
        self,
        attribute: int,
        inputs: Sequence[StreamLeaf | MJoin],
        target: str | None,
        parts: Sequence[Partition] | None = None,
    ) -> tuple[PartitionPlan, ...]:
        """A plan for each group of substreams; `parts` are those of the inputs where nothing else is said."""
        masks = [self.model.mask(node.streams) for node in inputs]
        groups = self.model.attributes[attribute].groups
        plans = []
        for part in parts or self.parts(attribute, inputs):
            model = self.model.part(attribute, groups.part(part.cells, part.weights))
            operands = [leaf(model, m, node.site, node.name) for m, node in zip(masks, inputs, strict=True)]
            plans.append(PartitionPlan(part.name, self._plan(model, operands, target)))
        return tuple(plans)

    def _rates(self, attribute: int, mask: int) -> FloatArray:
        """An input's tuples/s in each group of values."""
        join_attribute = self.model.attributes[attribute]
        agreeing = join_attribute.product(mask & join_attribute.mask) * join_attribute.groups.counts
        total = agreeing.sum()
        return agreeing * (self.model.rate(mask) / total if total else 0.0)

    def _plan(self, model: RateModel, operands: Sequence[Operand], target: str | None) -> StreamLeaf | MJoin:
        if self.optimizer == "optimal":
            return optimal(model, operands, target).node
        return OPTIMIZERS[self.optimizer](model, operands).node


def _finished(strategy: str, root: PlanNode) -> PmjoinPlan:
    return PmjoinPlan(strategy, root, links(root), cost_bytes_per_s(root))
