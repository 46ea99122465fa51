"""The physical plan of a query: how many buckets, who goes where, which stages, what is kept how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from watersmeet.errors import ConfigurationError
from watersmeet.plan.explain.hot_keys import HotClassPlan, plan_hot_values
from watersmeet.plan.explain.shared_dataflow import describe_join
from watersmeet.plan.probing import ProbingSequence, plan_probing
from watersmeet.plan.routing.decide import decide_routing
from watersmeet.plan.routing.rewriting import describe_ways
from watersmeet.plan.routing.shares import Shares, plan_shares
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import ColumnRef, Input, Query, format_duration
from watersmeet.query.expression import quote_ref
from watersmeet.query.shared_dataflow import SharedDataflow

FINGERPRINT_FORMAT = 3  # raised when state written by an older version can no longer be read


@dataclass(frozen=True)
class PhysicalPlan:
    """A query with its routing; `partitions` is the number of shuffle partitions of every stage.

    With a pipeline the query runs as its levels, without one by shares. Probing sequences are only where the
    join starts from: it adapts them to what it observes.
    """

    query: Query
    shares: Shares
    partitions: int
    probing: tuple[ProbingSequence, ...] = ()
    hot_values: tuple[HotClassPlan, ...] = ()
    pipeline: SharedDataflow | None = None
    reason: str = ""  # why it is routed so
    is_native: bool = False  # whether Spark's own joins run it
    rewrites: bool = False  # whether the pipeline is one of all ways to rewrite the query

    @property
    def routing(self) -> Literal["shares", "pipeline", "rewrite", "native"]:
        if self.is_native:
            return "native"
        if self.rewrites:
            return "rewrite"
        return "shares" if self.pipeline is None else "pipeline"

    @property
    def fingerprint(self) -> str:
        """What the state of a checkpoint depends on, as lines a person can compare."""
        lines = [f"state format {FINGERPRINT_FORMAT}", f"shuffle partitions {self.partitions}"]
        lines += self.query.pretty().split("\n")
        for item in self.query.inputs:
            read = set(self.query.columns_read(item.alias))
            # Under a ROWS window all columns are kept: they order the tuples of one instant.
            kept = [c.pretty() for c in item.stream.columns if c.name in read or item.window.counts_rows]
            lines.append(f"columns of {item.alias}: {', '.join(kept)}")
        if self.is_native:
            lines.append("joins of Spark's own")
        elif self.pipeline is None:
            lines.append(f"shares {' x '.join(map(str, self.shares.shares)) or '1'}")
        elif self.rewrites:
            lines.append("rewritten step by step")
        return "\n".join([*lines, *self._pipeline_lines()])

    def stages(self) -> tuple[str, ...]:
        """The stages in order, each as one line."""
        stages = [f"pack   filter, project and cut by bucket {self._sources()}"]
        if self.query.joins_delayed:
            ranked = [item.alias for item in self.query.inputs if item.window.counts_rows]
            stages.append(f"rank   order by event time and number {', '.join(ranked)}, in a single partition")
        held = ""
        if self.query.aggregate:
            held = f", sampled every {format_duration(self.query.aggregate.emit_every_us)}"
        elif self.query.distinct:
            held = ", held until the watermark is past them"
        if self.is_native:
            return ("cascade of Spark's own joins, in FROM order",)
        if self.pipeline is None:
            inputs, buckets = len(self.query.inputs), self.shares.buckets_used
            stages.append(f"join   {inputs} inputs in {buckets} buckets{held}")
        stages += [f"join   {line} in {self.partitions} buckets" for line in self._pipeline_lines()]
        residual = (
            f"where {' and '.join(expr.pretty() for expr in self.query.residual)}, "
            if self.query.residual
            else ""
        )
        stages.append(f"select {residual}{', '.join(output.name for output in self.query.select)}")
        if self.query.aggregate:
            stages.append("group  by tick and group, by Spark's own aggregation")
        elif self.query.distinct:
            stages.append(f"unique values by hash in {self.partitions} buckets, let out as they appear")
        return tuple(stages)

    def retention(self) -> tuple[str, ...]:
        """What is kept of each input, and for how long."""
        kept = [f"{item.alias}: {self._kept(item)}" for item in self.query.inputs]
        results = [one for one in (self.pipeline.relations if self.pipeline else ()) if one.slot is None]
        kept += [f"results by {one.route}: while all of their tuples live" for one in results]
        return tuple(kept)

    def pretty(self) -> str:
        """The whole plan for `explain`."""
        parts = [
            ("sources", "\n".join(self._connections())),
            ("query", self.query.pretty()),
            ("routing", self._routing()),
            ("hot values", "\n".join(each.pretty() for each in self.hot_values)),
            ("stages", "\n".join(self.stages())),
            ("state", "\n".join(self.retention())),
        ]
        return "\n\n".join(f"{title}\n{_indent(text)}" for title, text in parts if text)

    def _routing(self) -> str:
        if self.is_native:
            return "native: a cascade of Spark's own joins"
        if self.pipeline is None:
            return self.shares.pretty()
        levels = len({join.level for join in self.pipeline.joins})
        what = "rewriting in" if self.rewrites else "pipeline of"
        choices = [describe_ways(self.pipeline, join) for join in self.pipeline.joins if join.ways]
        return "\n".join([f"{what} {levels} levels: {self.reason}", *self._pipeline_lines(), *choices])

    def _pipeline_lines(self) -> list[str]:
        """The joins of the pipeline, a line each; none where it is routed by shares."""
        if self.pipeline is None:
            return []
        relations = {relation.name: relation for relation in self.pipeline.relations}
        made = {
            join.name: " ⋈ ".join(slot for slot in self.query.graph.aliases if slot in join.slots)
            for join in self.pipeline.joins
        }
        routes = {way.relation: relations[way.relation].route for j in self.pipeline.joins for way in j.ways}
        return [
            f"level {join.level}: {describe_join(join, relations, made)}"
            + (f"; on by {' or '.join(routes[way.relation] for way in join.ways)}" if join.ways else "")
            for join in self.pipeline.joins
        ]

    def _connections(self) -> list[str]:
        """Where streams come from that are no files, what is secret left out."""
        return [
            f"{stream.name} from {stream.source.pretty()}"
            for stream in self.query.streams
            if stream.source is not None and stream.source.option("path") is None
        ]

    def _sources(self) -> str:
        return ", ".join(item.alias for item in self.query.inputs)

    def _kept(self, item: Input) -> str:
        keys = [cls.of(item.alias) for cls in self.query.graph.classes]
        columns = dict.fromkeys(
            [
                *(key.expr.pretty() for key in keys if key),
                *(quote_ref(ColumnRef(item.alias, name)) for name in self.query.payload(item.alias)),
                "event time",
            ]
        )
        if self.pipeline is None:
            copies = self.shares.replication(item.alias)
        else:
            copies = sum(one.slot == item.alias for one in self.pipeline.relations)
        replicated = f", in {copies} copies" if copies > 1 else ""
        return f"{', '.join(columns)}{replicated}; {self._lifetime(item)}"

    def _lifetime(self, item: Input) -> str:
        late = f" and lateness {format_duration(item.stream.lateness_us)}" if item.stream.lateness_us else ""
        return item.window.describe_retention() + (late if item.window.is_bounded else "")


def plan_physical(
    query: Query,
    partitions: int,
    statistics: Statistics | None = None,
    routing: str | None = "shares",
) -> PhysicalPlan:
    """The plan for this many shuffle partitions; default statistics where none are known.

    `routing` is shares, pipeline, rewrite or native; None takes shares or a pipeline, whichever costs less.
    """
    if query.joins_delayed and (query.distinct or query.aggregate):
        what = "aggregates" if query.aggregate else "SELECT DISTINCT"
        counted = next(item for item in query.inputs if item.window.counts_rows)
        raise ConfigurationError(
            f"{what} over {counted.pretty()} cannot run yet: when a tuple leaves a ROWS window is known only "
            "later. Use a RANGE or TUMBLE window of time, or drop the DISTINCT or the aggregate"
        )
    known = statistics or Statistics()
    shares = plan_shares(query, known, partitions)
    chosen = decide_routing(query, known, partitions, routing)
    hot = plan_hot_values(query, shares, known) if chosen.pipeline is None else ()
    probing = plan_probing(query, known)
    return PhysicalPlan(
        query,
        shares,
        partitions,
        probing,
        hot,
        chosen.pipeline,
        chosen.reason,
        chosen.is_native,
        chosen.rewrites,
    )


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
