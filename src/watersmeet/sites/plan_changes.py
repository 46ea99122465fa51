"""The plans that a query has run by, one after another, agreed on by all sites: `CHECKPOINT/plans.json`.

It is written while all sites are stopped, and read by each when it starts. Without it there is one plan for
all time. The plans have parts, links and checkpoints of their own, so an old one ends while the new one
begins.
The first plan is not listed:

    {"out": [{"plan": ..., "statistics": ..., "since_us": T, "after_us": ...}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import DataError
from watersmeet.plan.sites.change_over import EVER, Tenure
from watersmeet.plan.statistics.file import format_statistics, parse_statistics
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.spark.storage.paths import local_path

PLANS = "plans.json"


@dataclass(frozen=True)
class ChangedPlan:
    """A plan that has taken over: its name, the statistics it follows from, and when."""

    plan: str
    statistics: Statistics
    tenure: Tenure

    def to_json(self) -> dict[str, Any]:
        tenure = {"since_us": self.tenure.since_us, "after_us": self.tenure.after_us}
        return {"plan": self.plan, "statistics": format_statistics(self.statistics), **tenure}


@dataclass(frozen=True)
class Generation:
    """One of the plans of a query: its number, from 0, and which answers are its own."""

    number: int
    tenure: Tenure
    plan: str | None = None  # None: as the first run was asked for
    statistics: Statistics | None = None

    def part(self, query: str) -> str:
        """What its checkpoints and links go by."""
        return query.lower() if self.number == 0 else f"{query.lower()}@{self.number}"


@dataclass(frozen=True)
class PlanChanges:
    """The changes of plan of all queries of a file."""

    changes: Mapping[str, Sequence[ChangedPlan]] = field(default_factory=dict)

    def generations(self, query: str) -> list[Generation]:
        """The plans of a query, the first one first."""
        found = [Generation(0, EVER)]
        for number, change in enumerate(self.changes.get(query.lower(), ()), 1):
            last = found[-1]
            ended = last.tenure.until(change.tenure.since_us)
            found[-1] = Generation(last.number, ended, last.plan, last.statistics)
            found.append(Generation(number, change.tenure, change.plan, change.statistics))
        return found

    def with_change(self, query: str, change: ChangedPlan) -> PlanChanges:
        """With one more change, the newest of a query."""
        own = (*self.changes.get(query.lower(), ()), change)
        return PlanChanges({**self.changes, query.lower(): own})

    def to_text(self) -> str:
        return json.dumps({name: [each.to_json() for each in own] for name, own in self.changes.items()})


def plan_changes(text: str | None, place: str) -> PlanChanges:
    """What the file says; `place` names it."""
    if text is None:
        return PlanChanges()
    try:
        return PlanChanges(
            {
                name: tuple(
                    ChangedPlan(
                        str(each["plan"]),
                        parse_statistics(each["statistics"]),
                        Tenure(since_us=int(each["since_us"]), after_us=int(each["after_us"])),
                    )
                    for each in own
                )
                for name, own in json.loads(text).items()
            }
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(
            f"{place} is damaged ({error}): no site can tell which plan gives which answers. "
            "Put it back from a copy"
        ) from None


def changes_below(root: str) -> PlanChanges:
    """What is agreed on below the checkpoint of all sites, if that is on a disk of this machine."""
    folder = local_path(root)
    if folder is None:
        return PlanChanges()
    file = folder / PLANS
    try:
        return plan_changes(file.read_text(encoding="utf-8"), str(file))
    except FileNotFoundError:
        return PlanChanges()
