"""What one site does of a semijoin plan, as data: the steps with the sizes of their messages, and its inputs.

Every site computes the same plan from the same file and statistics. The fingerprint is of the whole, so two
sites that go by different plans find out at the first row that crosses.

Where one attribute class has a member of every input, tuples of different values never meet, and the plan is
run in `LANES` lanes: each by itself, with the tuples whose value hashes to it. All sites have the same lanes,
however many buckets their Spark has. A plan with SM-B or SM-S1 has one lane: the bits of a filter are those
of all values, and what has expired of a window is one count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from watersmeet.plan.sites.semijoin.cost import Method
from watersmeet.plan.sites.semijoin.model import SemijoinModel
from watersmeet.plan.sites.semijoin.multiway.step_sizes import StepSizes, step_sizes
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan, SemijoinStep
from watersmeet.plan.sites.site_program import Send
from watersmeet.query import JoinGraph, Query

LANES = 8
VERSION = 1  # of the protocols and of what they keep: state and links of another are refused


@dataclass(frozen=True, kw_only=True)
class SemijoinProgram:
    """One site's part of a semijoin plan."""

    site: str
    fingerprint: str  # of the whole plan
    aliases: tuple[str, ...]  # inputs of the query that arrive here
    plan: SemijoinPlan
    sizes: tuple[StepSizes, ...]
    interval_us: int
    lane_class: int | None  # the attribute class whose values are in lanes; None: there is one lane
    targets: tuple[str, ...]  # the sites that something is sent to
    sources: tuple[str, ...]  # and those that something comes from

    @property
    def sends(self) -> tuple[Send, ...]:
        """No rows of one size: mail says itself what it costs."""
        return ()

    @property
    def lanes(self) -> int:
        return 1 if self.lane_class is None else LANES


def semijoin_programs(query: Query, plan: SemijoinPlan, model: SemijoinModel) -> dict[str, SemijoinProgram]:
    """The program of each site that has something to do."""
    sizes, interval_us = step_sizes(plan, model), round(model.interval_s * 1e6)
    lane_class = _lane_class(query.graph, plan)
    fingerprint = _fingerprint(query, plan, sizes, interval_us, lane_class)
    where = {stream.alias: stream.site for stream in model.streams}
    ways = {way for step in plan.steps for way in _ways(step)}
    every = [*where.values(), *(site for step in plan.steps for site in (step.source_site, step.target_site))]
    return {
        site: SemijoinProgram(
            site=site,
            fingerprint=fingerprint,
            aliases=tuple(alias for alias in query.graph.aliases if where[alias] == site),
            plan=plan,
            sizes=sizes,
            interval_us=interval_us,
            lane_class=lane_class,
            targets=tuple(sorted(target for source, target in ways if source == site)),
            sources=tuple(sorted(source for source, target in ways if target == site)),
        )
        for site in dict.fromkeys(every)
    }


def sends_to_target(method: Method) -> bool:
    """Whether the half at the source sends messages."""
    return method is not Method.SP_S


def sends_to_source(method: Method) -> bool:
    """Whether the half at the target does."""
    return method is not Method.SP_D


def _ways(step: SemijoinStep) -> Sequence[tuple[str, str]]:
    """The links that a step's messages take."""
    ends = (step.source_site, step.target_site)
    if ends[0] == ends[1]:
        return []
    forth = [ends] if sends_to_target(step.method) else []
    return [*forth, (ends[1], ends[0])] if sends_to_source(step.method) else forth


def _lane_class(graph: JoinGraph, plan: SemijoinPlan) -> int | None:
    if any(step.method in (Method.SM_B, Method.SM_S1) for step in plan.steps):
        return None
    every = set(graph.aliases)
    return next((n for n, cls in enumerate(graph.classes) if set(cls.aliases) == every), None)


def _fingerprint(
    query: Query,
    plan: SemijoinPlan,
    sizes: Sequence[StepSizes],
    interval_us: int,
    lane_class: int | None,
) -> str:
    """The same for the same query and plan, in every process; another for any other."""
    steps = [
        {
            "source": step.source,
            "target": step.target,
            "sites": (step.source_site, step.target_site),
            "method": step.method.value,
            "key": step.key,
            "sizes": asdict(size),
        }
        for step, size in zip(plan.steps, sizes, strict=True)
    ]
    agreed: dict[str, Any] = {
        "semijoin": VERSION,
        "query": query.pretty(),
        "streams": [stream.pretty() for stream in query.streams],
        "ordering": plan.ordering,
        "steps": steps,
        "interval_us": interval_us,
        "lanes": LANES if lane_class is not None else 1,
        "lane_class": lane_class,
    }
    text = json.dumps(agreed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
