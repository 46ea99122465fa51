"""The stages that DISTINCT and aggregates need at the site that finds all answers, after those of its joins.

joins -> hold -> answers sampled at ticks -> GROUP BY, in the batch
joins -> hold -> SELECT -> values, where they meet
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from watersmeet.query import Query
from watersmeet.spark.metrics.metrics import Metrics
from watersmeet.spark.sites.tail.hold_stage import HoldPlan, HoldStage
from watersmeet.spark.sites.tail.value_stage import ValuePlan, ValueStage
from watersmeet.spark.tuning import Tuning


class ProgramOfSite(Protocol):
    """A site's part of a plan, as far as it says where state belongs."""

    @property
    def site(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True)
class Tail:
    """The stages after the joins, and the one after the SELECT list."""

    stages: tuple[HoldStage, ...] = ()
    values: ValueStage | None = None


def plan_tail(
    query: Query,
    program: ProgramOfSite,
    origins: tuple[str, ...],
    labels: tuple[int, ...],
    metrics: Metrics,
    tuning: Tuning,
) -> Tail:
    """The tail of one site; `origins` are those whose marks bound its answers, none where it finds none."""
    if not origins or not query.combines_answers:
        return Tail()
    ticks = query.aggregate
    payload = [(item.alias, column) for item in query.inputs for column in query.payload(item.alias)]
    fingerprint = f"{program.fingerprint} at {program.site} in {len(labels)}"
    hold = HoldPlan(
        name=f"answers held at {program.site}",
        origins=origins,
        payload=tuple(f"{alias}.{column}" for alias, column in payload),
        metrics=metrics,
        labels=labels,
        fingerprint=fingerprint,
        tuning=tuning,
        every_us=None if ticks is None else ticks.emit_every_us,
        before_us=0 if ticks is None else ticks.before_us,
    )
    if ticks is not None:
        return Tail((HoldStage(hold),))
    values = ValuePlan(
        name=f"values at {program.site}",
        columns=tuple(output.name for output in query.select),
        labels=labels,
        fingerprint=fingerprint,
        tuning=tuning,
    )
    return Tail((HoldStage(hold),), ValueStage(values))
