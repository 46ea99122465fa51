"""The sizes by which a step's messages are priced, from the model it was planned with."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.plan.sites.semijoin.filter import filter_bits
from watersmeet.plan.sites.semijoin.model import SemijoinModel
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan, SemijoinStep


@dataclass(frozen=True, kw_only=True)
class StepSizes:
    """Bytes of a tuple and of a join value on either side, and the bits of a filter of W2."""

    source_bytes: float  # F_S1
    source_key_bytes: float  # P_S1
    target_bytes: float  # F_S2
    target_key_bytes: float  # P_S2
    filter_bits: int


def step_sizes(plan: SemijoinPlan, model: SemijoinModel) -> tuple[StepSizes, ...]:
    """The sizes of every step of a plan."""
    return tuple(_sizes(step, model) for step in plan.steps)


def _sizes(step: SemijoinStep, model: SemijoinModel) -> StepSizes:
    head = step.source[0] if len(step.target) == 1 else None
    sites = (step.source_site, step.target_site)
    priced = model.one_way(frozenset(step.source), frozenset(step.target), sites, head)
    return StepSizes(
        source_bytes=priced.source.tuple_bytes,
        source_key_bytes=priced.source.key_bytes,
        target_bytes=priced.target.tuple_bytes,
        target_key_bytes=priced.target.key_bytes,
        filter_bits=filter_bits(priced.target_window_values),
    )
