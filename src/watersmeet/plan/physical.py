"""The physical plan of a query: how it is routed, over how many partitions, where its probing starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watersmeet.errors import ConfigurationError
from watersmeet.plan.predecessor import Predecessor
from watersmeet.plan.probing import ProbingSequence, plan_probing
from watersmeet.plan.routing.decide import decide_routing
from watersmeet.plan.routing.routing import Native, Pipeline, Rewrite, Routing, Shares, TreePipeline
from watersmeet.plan.state_format import StateIdentity, identify_query
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import JoinGraph, Query


@dataclass(frozen=True)
class PhysicalPlan:
    """A query with its routing; `partitions` is the number of shuffle partitions of every stage.

    Probing sequences are only where the join starts from: it adapts them to what it observes.
    """

    query: Query
    routing: Routing
    partitions: int
    probing: tuple[ProbingSequence, ...] = ()
    predecessor: Predecessor | None = None

    @property
    def identity(self) -> StateIdentity:
        """What the state of a checkpoint depends on, and which query it is of."""
        return identify_query(self.query, self.partitions, self.routing)

    @property
    def fingerprint(self) -> str:
        """The identity as a text."""
        return self.identity.fingerprint

    @property
    def first_fingerprint(self) -> str:
        """Of the query that the checkpoint was made for: this one, unless it has taken over its state."""
        return self.predecessor.first if self.predecessor is not None else self.fingerprint

    def copies(self, alias: str) -> int:
        """How many copies of an input's tuples are kept, over all buckets and stages."""
        match self.routing:
            case Shares(hypercube):
                return hypercube.replication(alias)
            case Pipeline(dataflow) | Rewrite(dataflow):
                return sum(relation.slot == alias for relation in dataflow.relations)
            case TreePipeline() | Native():
                return 1

    @property
    def travelling(self) -> Query:
        """The query, its graph saying by what its tuples are sent to their buckets."""
        if not isinstance(self.routing, TreePipeline):
            return self.query
        keys = tuple(stage.key for stage in self.routing.staged.stages)
        return replace(self.query, graph=JoinGraph(self.query.graph.aliases, keys))

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
    if query.joins_delayed and query.tree is not None and (query.distinct or query.aggregate):
        what = "aggregates of outer joins" if query.aggregate else "SELECT DISTINCT of outer joins"
        counted = next(item for item in query.inputs if item.window.counts_rows)
        raise ConfigurationError(
            f"{what} over {counted.pretty()} cannot run yet: when a tuple leaves a ROWS window is known only "
            "later. Use a RANGE or TUMBLE window of time, or drop the DISTINCT or the aggregate"
        )
    known = statistics or Statistics()
    chosen = decide_routing(query, known, partitions, routing)
    probing = plan_probing(query, known) if query.tree is None else ()
    return PhysicalPlan(query, chosen, partitions, probing)
