"""The physical plan of a query: how it is routed, over how many partitions, where its probing starts."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import ConfigurationError
from watersmeet.plan.probing import ProbingSequence, plan_probing
from watersmeet.plan.routing.decide import decide_routing
from watersmeet.plan.routing.routing import Native, Pipeline, Rewrite, Routing, Shares
from watersmeet.plan.state_format import StateIdentity, identify_query
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query


@dataclass(frozen=True)
class PhysicalPlan:
    """A query with its routing; `partitions` is the number of shuffle partitions of every stage.

    Probing sequences are only where the join starts from: it adapts them to what it observes.
    """

    query: Query
    routing: Routing
    partitions: int
    probing: tuple[ProbingSequence, ...] = ()

    @property
    def identity(self) -> StateIdentity:
        """What the state of a checkpoint depends on, and which query it is of."""
        return identify_query(self.query, self.partitions, self.routing)

    @property
    def fingerprint(self) -> str:
        """The identity as a text."""
        return self.identity.fingerprint

    def copies(self, alias: str) -> int:
        """How many copies of an input's tuples are kept, over all buckets and stages."""
        match self.routing:
            case Shares(hypercube):
                return hypercube.replication(alias)
            case Pipeline(dataflow) | Rewrite(dataflow):
                return sum(relation.slot == alias for relation in dataflow.relations)
            case Native():
                return 1

    def pretty(self) -> str:
        """The plan in a line; `explain_plan` has all of it."""
        return f"{self.routing.name} of {', '.join(self.query.graph.aliases)} in {self.partitions} partitions"


def plan_physical(
    query: Query,
    partitions: int,
    statistics: Statistics | None = None,
    routing: str | None = Shares.name,
) -> PhysicalPlan:
    """The plan for this many shuffle partitions; default statistics where none are known.

    `routing` is shares, pipeline, rewrite or native; None takes shares or a pipeline, whichever costs less.
    """
    for item in query.inputs:
        if query.tree is not None and item.window.partition:
            raise ConfigurationError(
                f"outer, semi and anti joins with {item.pretty()} cannot run yet: write an inner join, or a "
                "window of time, or of rows of the whole stream: [ROWS 100]"
            )
    known = statistics or Statistics()
    chosen = decide_routing(query, known, partitions, routing)
    probing = plan_probing(query, known) if query.tree is None else ()
    return PhysicalPlan(query, chosen, partitions, probing)
