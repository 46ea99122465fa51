"""How long the steps of a semijoin plan may take, given a bound on the delay of one shipment.

After Tran and Lee (2010), section 2.2: tuples of an interval are not dropped from a window before every batch
of that interval has been through, and the delay of a batch accumulates along its sequence of joins. With d
the bound on one shipment, a the time after the interval's end at which the batch is at the source, and b the
same for the target's batch at its site (0 for a stream), a batch of SM-S2, say, may probe at max(a, b + d)
and has its answer two shipments later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from watersmeet.plan.sites.semijoin.cost import Method
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan, SemijoinStep


@dataclass(frozen=True)
class StepDelay:
    """Microseconds after the end of an interval, at most."""

    target_us: int  # until the target's batch is at its site
    probe_us: int  # until its update is at the source: when a delayed probe may run
    output_us: int  # until the step's output for that interval is complete


def step_delay(step: SemijoinStep, delay_us: int, source_us: int = 0, target_us: int = 0) -> StepDelay:
    """The delays of one step, given when its two batches are there."""
    hop = 0 if step.source_site == step.target_site else delay_us
    probe = target_us + hop
    gated = max(source_us, probe)
    arrived = max(source_us + hop, target_us)
    output = {
        Method.SP_S: gated,
        Method.SP_D: arrived,
        Method.SM_S1: arrived + hop,
        Method.SM_S2: gated + 2 * hop,
        Method.SM_D1: gated + hop,
        Method.SM_D2: arrived + 2 * hop,
        Method.SM_B: gated + hop,
    }[step.method]
    return StepDelay(target_us, probe, output)


def plan_delays(
    plan: SemijoinPlan, delay_us: int, notice_us: Mapping[int, int] | None = None
) -> list[StepDelay]:
    """The delays of every step; `notice_us` is how long notice of ended tuples may take to a tree's level."""
    if plan.ordering == "linear":
        return list(_linear(plan, delay_us))
    found: list[StepDelay] = []
    below = 0
    for level, (onto, out) in enumerate(zip(plan.steps[::2], plan.steps[1::2], strict=True)):
        pair = (
            step_delay(onto, delay_us, source_us=0, target_us=below),
            step_delay(out, delay_us, source_us=below, target_us=0),
        )
        found += pair
        below = max(pair[0].output_us, pair[1].output_us, (notice_us or {}).get(level, 0))
    return found


def _linear(plan: SemijoinPlan, delay_us: int) -> Iterator[StepDelay]:
    ready = 0
    for before, step in pairwise([None, *plan.steps]):
        assert step is not None
        goes_on = before is not None and len(step.source) > 1
        one = step_delay(step, delay_us, source_us=ready if goes_on else 0)
        ready = one.output_us
        yield one
