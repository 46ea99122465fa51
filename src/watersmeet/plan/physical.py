"""The physical plan of a query: how many buckets, who goes where, which stages, what is kept how long."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import ConfigurationError
from watersmeet.plan.explain_hot_keys import HotClassPlan, plan_hot_values
from watersmeet.plan.probing import ProbingSequence, plan_probing
from watersmeet.plan.shares import Shares, plan_shares
from watersmeet.plan.statistics import Statistics
from watersmeet.query import ColumnRef, Input, Query, WindowKind, format_duration
from watersmeet.query.expression import quote_ref

FINGERPRINT_FORMAT = 2  # raised when state written by an older version can no longer be read


@dataclass(frozen=True)
class PhysicalPlan:
    """A query with its routing; `partitions` is the number of shuffle partitions of every stage.

    Probing sequences are only where the join starts from: it adapts them to what it observes.
    """

    query: Query
    shares: Shares
    partitions: int
    probing: tuple[ProbingSequence, ...] = ()
    hot_values: tuple[HotClassPlan, ...] = ()

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
        lines.append(f"shares {' x '.join(map(str, self.shares.shares)) or '1'}")
        return "\n".join(lines)

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
        stages.append(f"join   {len(self.query.inputs)} inputs in {self.shares.buckets_used} buckets{held}")
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
        return tuple(f"{item.alias}: {self._kept(item)}" for item in self.query.inputs)

    def pretty(self) -> str:
        """The whole plan for `explain`."""
        parts = [
            ("sources", "\n".join(self._connections())),
            ("query", self.query.pretty()),
            ("routing", self.shares.pretty()),
            ("hot values", "\n".join(each.pretty() for each in self.hot_values)),
            ("stages", "\n".join(self.stages())),
            ("state", "\n".join(self.retention())),
        ]
        return "\n\n".join(f"{title}\n{_indent(text)}" for title, text in parts if text)

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
        copies = self.shares.replication(item.alias)
        replicated = f", in {copies} copies" if copies > 1 else ""
        return f"{', '.join(columns)}{replicated}; {self._lifetime(item)}"

    def _lifetime(self, item: Input) -> str:
        late = f" and lateness {format_duration(item.stream.lateness_us)}" if item.stream.lateness_us else ""
        match item.window.kind:
            case WindowKind.RANGE:
                return f"for {format_duration(item.window.size)} behind the watermark{late}"
            case WindowKind.TUMBLE:
                return f"until the watermark reaches the end of its {format_duration(item.window.size)}{late}"
            case WindowKind.ROWS:
                return f"the last {item.window.size} tuples{late}"
            case WindowKind.TUMBLE_ROWS:
                return f"the newest group of {item.window.size} tuples{late}"
            case _:
                return "for ever"


def plan_physical(query: Query, partitions: int, statistics: Statistics | None = None) -> PhysicalPlan:
    """The plan for this many shuffle partitions; default statistics where none are known."""
    if query.joins_delayed and (query.distinct or query.aggregate):
        what = "aggregates" if query.aggregate else "SELECT DISTINCT"
        counted = next(item for item in query.inputs if item.window.counts_rows)
        raise ConfigurationError(
            f"{what} over {counted.pretty()} cannot run yet: when a tuple leaves a ROWS window is known only "
            "later. Use a RANGE or TUMBLE window of time, or drop the DISTINCT or the aggregate"
        )
    known = statistics or Statistics()
    shares = plan_shares(query, known, partitions)
    hot = plan_hot_values(query, shares, known)
    return PhysicalPlan(query, shares, partitions, plan_probing(query, known), hot)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
