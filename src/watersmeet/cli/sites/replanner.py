"""`watersmeet sites --replan`: says when another plan would ship less, and changes over to it.

To change over, all sites are stopped; the latest event time that any of them has read is in their
checkpoints; the new plan and the instant it takes over are written down; all sites are started again, and run
both plans until the old one is over (`plan/sites/change_over.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from watersmeet.cli.run_request import Request
from watersmeet.cli.sites.plans import Plans, RunningPlan
from watersmeet.cli.terminal.messages import tell, tell_event
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.change_over import taken_over, why_plan_stays
from watersmeet.query import BEGINNING
from watersmeet.sites.plan_changes import ChangedPlan
from watersmeet.sites.replan import Measured, Proposal, propose
from watersmeet.spark.jobs.sites.site_checkpoint import SEEN
from watersmeet.spark.session.connectors import FILE_FORMATS
from watersmeet.spark.sources.clean_source import CLEAN
from watersmeet.spark.storage.paths import local_path

OFF, SAY, AUTO = "off", "say", "auto"
MODES = (OFF, SAY, AUTO)
CHECK_S = 30.0  # of running time, from one look at the plans to the next


class Replanner:
    """Follows what sites report, and compares the newest plan of each query with the best by now."""

    def __init__(self, request: Request, plans: Plans) -> None:
        self._request = request
        self._plans = plans
        self._measured = {plan.label: Measured() for plan in plans.newest}
        self._said: set[tuple[str, str]] = set()
        self._next_s = time.monotonic() + CHECK_S
        if request.replan == AUTO:
            refuse_what_cannot_change(request, plans)

    def note(self, event: Mapping[str, Any]) -> None:
        """Takes a site's report of a batch."""
        label = str(event.get("query", "")).rpartition(" at ")[0]
        measured = self._measured.get(label)
        if measured is None or "batch_id" not in event:
            return
        if measured.shipped_before is None:
            plan = next(plan for plan in self._plans.newest if plan.label == label)
            measured.shipped_before = self._plans.bill(plan).priced_bytes
        measured.note(event)

    def due(self) -> list[tuple[RunningPlan, Proposal]]:
        """The changes that would pay by now; looks again after a while."""
        if self._request.replan == OFF or time.monotonic() < self._next_s:
            return []
        self._next_s = time.monotonic() + CHECK_S
        found = []
        for plan in self._plans.newest:
            if self._measured[plan.label].rates(plan.query) is None:
                continue  # too few tuples so far: counting goes on
            proposal = propose(
                plan.name,
                plan.query,
                plan.statistics,
                plan.option.name,
                self._measured[plan.label],
                self._plans.bill(plan).priced_bytes,
                self._request.replan_factor,
            )
            self._measured[plan.label] = Measured()  # the next look is at what comes from here on
            if proposal is not None:
                self._say(proposal, may_change=why_plan_stays(plan.query) is None)
                found.append((plan, proposal))
        return found

    def change(self, proposals: list[tuple[RunningPlan, Proposal]]) -> bool:
        """Changes the plans; all sites are stopped. Whether there was one that could be changed."""
        changes = self._plans.changes
        for plan, proposal in proposals:
            seen_us = self._seen_us(plan)
            tenure = taken_over(plan.query, seen_us)
            if tenure.since_us <= plan.generation.tenure.since_us or seen_us == BEGINNING:
                continue  # it has not taken over itself yet
            change = ChangedPlan(proposal.option.name, proposal.statistics, tenure)
            changes = changes.with_change(plan.name, change)
            tell(f"{plan.name}: {proposal.option.name} takes over at {tenure.since_us} us of event time")
        if changes is self._plans.changes:
            return False
        self._plans.change(changes)
        return True

    def _say(self, proposal: Proposal, *, may_change: bool) -> None:
        said = (proposal.query, proposal.option.name)
        if said in self._said:
            return
        self._said.add(said)
        tell_event(self._request.as_json, "replan", **proposal.to_json())
        advice = ". --replan auto changes over" if self._request.replan == SAY and may_change else ""
        tell(f"{proposal.pretty()}{advice}")

    def _seen_us(self, plan: RunningPlan) -> int:
        """The latest event time that any site has read for a plan."""
        root = local_path(self._plans.root)
        assert root is not None
        seen = BEGINNING
        for site in plan.programs:
            file = root / "sites" / site.lower() / plan.part / SEEN
            try:
                seen = max(seen, int(json.loads(file.read_text(encoding="utf-8"))["seen_us"]))
            except FileNotFoundError:
                continue  # no streams arrive there
        return seen


def refuse_what_cannot_change(request: Request, plans: Plans) -> None:
    """Refuses what could not go on by another plan without losing or repeating anything."""
    if request.available_now:
        raise ConfigurationError("--replan auto is for streams that go on: leave out --available-now")
    if local_path(plans.root) is None:
        raise ConfigurationError(
            f"--replan auto needs a checkpoint on a disk of this machine, and {plans.root} is not"
        )
    for plan in plans.newest:
        taken_over(plan.query, 0)  # refuses windows without an end, and what is made of several answers
        for stream in plan.query.streams:
            source = stream.source
            name = "none" if source is None else source.format.lower()
            if stream.event_time is None:
                why = "has no event_time, so two plans would stamp its tuples differently"
            elif source is None or (name not in FILE_FORMATS and name != "kafka"):
                why = f"is read from {name}, which two plans cannot both read from where it was"
            elif (source.option(CLEAN) or "off").lower() != "off":
                why = f"has {CLEAN}, so one plan would take away what the other has not read"
            else:
                continue
            raise ConfigurationError(f"--replan auto: stream {stream.name} {why}. Write --replan say")
