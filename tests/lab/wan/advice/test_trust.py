"""The proof that advice can be trusted: random statistics, every option simulated, prediction beside result.

`python -m pytest tests/lab/wan/advice/test_trust.py --long -s` runs all 200 cases and prints the figures that
docs/decisions/020-advice-on-sites.md quotes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tests.lab.wan.advice.random_advice import Trial, Tried, try_advice
from watersmeet.plan.sites.advice import SiteOption
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan

CASES = 200
A_FEW = (3, 12, 152)  # of 2 and 3 streams, advised a plan of each kind

NEVER_MORE_THAN_SIMPLE = 1.1
NEAR_THE_CHEAPEST = 1.15


def errors(trials: Sequence[Trial], *methods: str) -> list[float]:
    """How far predictions are off, for every option by one of the methods."""
    return [tried.error for trial in trials for tried in trial.options if tried.option.method in methods]


def against_simple(trial: Trial) -> float:
    """What is advised over simple shipping, both as simulated."""
    return trial.advised.shipped / trial.simple.shipped


def is_near_the_cheapest(trial: Trial) -> bool:
    return trial.advised.shipped <= trial.cheapest.shipped * NEAR_THE_CHEAPEST


def test_advice_can_be_trusted(long_mode: bool) -> None:
    trials = [try_advice(seed) for seed in (range(CASES) if long_mode else A_FEW)]
    semijoins, plans = errors(trials, "semijoin"), errors(trials, "pmjoin", "distributed")
    worst = max(map(against_simple, trials))
    near = sum(map(is_near_the_cheapest, trials)) / len(trials)
    print(f"\n{len(trials)} cases, {sum(len(trial.options) for trial in trials)} options")
    print(f"advised over simple shipping, simulated: at most {worst:.3f}")
    print(
        f"median error: semijoins {statistics.median(semijoins):.1%}, PMJoin {statistics.median(plans):.1%}"
    )
    print(f"nine in ten are within: semijoins {_most(semijoins):.1%}, PMJoin {_most(plans):.1%}")
    print(f"advised option within 15% of the cheapest: {near:.1%} of cases")
    assert worst <= NEVER_MORE_THAN_SIMPLE
    assert statistics.median(semijoins) <= 0.1
    assert statistics.median(plans) <= 0.05
    assert near >= 0.9
    advised = {trial.advised.option.method for trial in trials}
    assert len(advised) > 1, f"all cases were advised the same, {advised}"


def _most(found: Sequence[float]) -> float:
    return statistics.quantiles(found, n=10)[-1]


def test_a_prediction_without_the_vectors_would_not_pass() -> None:
    """The case that was advised before: 42 times as much was shipped as predicted."""
    option = SiteOption("semijoin", "linear, SM-S2 and SM-D1 only", SemijoinPlan("linear", "greedy", ()), ())
    assert Tried(option, predicted=87_680.0, shipped=3_653_936.0, mean=3_653_936.0).error > 40
