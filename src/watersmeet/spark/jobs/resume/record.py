"""What `watersmeet.json` says of the query of a checkpoint, and of the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.predecessor import Predecessor
from watersmeet.plan.routing.routing import Pipeline, Rewrite, Routing, Shares
from watersmeet.plan.state_format import StateIdentity, describe_other_format, identity_from_json
from watersmeet.plan.take_over import KeptState, check_again
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.query.shared_dataflow_json import dataflow_from_json, dataflow_to_json
from watersmeet.spark.jobs.resume.sink_columns import Columns
from watersmeet.spark.sources.source_paths import Paths


@dataclass(frozen=True)
class Record:
    """What `watersmeet.json` says."""

    identity: StateIdentity
    ended: bool = False
    pipeline: SharedDataflow | None = None  # of a query that is routed so; without what it asks at the end
    paths: Paths = field(default_factory=dict)  # of the streams that are files
    folder: str = ""  # of the checkpoint itself
    kept: KeptState | None = None  # None: the query was last run before it could be changed
    changed: Changed | None = None

    def to_json(self) -> dict[str, Any]:
        pipeline = None if self.pipeline is None else dataflow_to_json(self.pipeline)
        fields = {"identity": self.identity.to_json(), "ended": self.ended, "pipeline": pipeline}
        fields |= {"paths": dict(self.paths), "folder": self.folder}
        fields |= {} if self.kept is None else {"kept": self.kept.to_json()}
        return fields | ({} if self.changed is None else {"changed": self.changed.to_json()})

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Record:
        """A record as it was written; refuses one of another state format."""
        if "identity" not in fields:  # until format 3 it held a text
            raise ConfigurationError(describe_other_format(fields["fingerprint"]))
        pipeline = None if fields["pipeline"] is None else dataflow_from_json(fields["pipeline"])
        return Record(
            identity_from_json(fields["identity"]),
            fields["ended"],
            pipeline,
            dict(fields.get("paths", {})),  # a stream that has none recorded may be read from anywhere
            fields.get("folder", ""),
            KeptState.from_json(fields["kept"]) if "kept" in fields else None,
            Changed.from_json(fields["changed"]) if "changed" in fields else None,
        )

    @staticmethod
    def of(plan: PhysicalPlan) -> Record:
        """What is remembered of a plan that starts now."""
        kept = KeptState.of(plan)
        match plan.routing:
            case Pipeline(dataflow) | Rewrite(dataflow):
                return Record(plan.identity, pipeline=dataflow, kept=kept)
            case _:
                return Record(plan.identity, kept=kept)

    def route(self, fresh: Routing) -> Routing:
        """The routing the query was started with, if it fits at all; otherwise its fingerprint will tell."""
        match fresh:
            case Shares(hypercube) if len(self.identity.shares) == len(hypercube.shares):
                return replace(fresh, hypercube=replace(hypercube, shares=self.identity.shares))
            case Pipeline(dataflow) | Rewrite(dataflow) if self.pipeline is not None:
                return replace(fresh, dataflow=resumed_dataflow(self.pipeline, dataflow))
            case _:
                return fresh

    def resume(self, fresh: PhysicalPlan) -> PhysicalPlan:
        """A plan with what this one was started with, if it is of the same query."""
        return replace(
            fresh,
            query=check_again(fresh.query, self.kept.unchecked) if self.kept is not None else fresh.query,
            partitions=self.identity.partitions,
            routing=self.route(fresh.routing),
            predecessor=self.changed.predecessor if self.changed is not None else None,
        )


@dataclass(frozen=True)
class Changed:
    """That a query has taken the place of another, from a batch on.

    `columns` are all that its sink may hold. `replaced` is the query before it, as long as it may count.
    """

    since: int
    predecessor: Predecessor
    columns: Columns
    replaced: Record | None

    def to_json(self) -> dict[str, Any]:
        return {
            "since": self.since,
            "predecessor": self.predecessor.to_json(),
            "columns": [list(each) for each in self.columns],
            "replaced": None if self.replaced is None else self.replaced.to_json(),
        }

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Changed:
        return Changed(
            fields["since"],
            Predecessor.from_json(fields["predecessor"]),
            tuple((name, type_) for name, type_ in fields["columns"]),
            None if fields["replaced"] is None else Record.from_json(fields["replaced"]),
        )


def resumed_dataflow(kept: SharedDataflow, fresh: SharedDataflow) -> SharedDataflow:
    """The joins the query was started with, under the query as it is now, whose streams may fall idle."""
    tails = (replace(fresh.tails[0], number=each.number, join=each.join) for each in kept.tails)
    relations = (replace(each, streams=fresh.tails[0].streams) for each in kept.relations)
    streams = tuple(dict.fromkeys([*kept.streams, *fresh.streams]))
    return replace(kept, tails=tuple(tails), relations=tuple(relations), streams=streams, sets=fresh.sets)
