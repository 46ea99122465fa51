"""How well the semijoin cost formulas track executed plans: correlation, error, and which terms are off.

Random one-way joins by every method, and greedy plans of random four-way queries, all with parameters from
Table 2 of Tran and Lee (2010). The paper gives the formulas (Appendix B) and no such comparison; the claims
are ours. The error of a join is |simulated / modelled - 1|; a term's share is the difference it makes, added
up over all joins of a method, over their modelled time.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.registry import figure
from watersmeet.lab.figures.runners import Runner, run_rows
from watersmeet.lab.figures.semijoin.experiment import Measured, OneWayTask, run_one_way
from watersmeet.lab.figures.semijoin.plans import QueryTask, run_query
from watersmeet.lab.figures.semijoin.queries import (
    ATTRIBUTE_BYTES,
    ATTRIBUTES,
    RATES_PER_S,
    SELECTIVITY_FACTORS,
    TOPOLOGIES,
    WINDOWS_MS,
)
from watersmeet.lab.figures.svg_chart import Panel, Series
from watersmeet.plan.sites.semijoin.cost import JoinSide, Method
from watersmeet.plan.sites.semijoin.model import DEFAULT_INTERVAL_S, PAPER_LINK

TRACKS = 0.9  # the least correlation that counts as tracking
TERMS_SHOWN = 2

NO_MESSAGE = "an interval in which no tuple came sends no message, and the formula charges one"
REASONS = {
    Method.SP_S: NO_MESSAGE,
    Method.SP_D: NO_MESSAGE,
    Method.SM_S1: "dW'2: the formula ships S2's new tuples of all values that S1 can have, as if each were"
    " asked for while its tuples live; with few tuples of S1 many never are",
    Method.SM_S2: "dV'2 and dW'2: the formula asks for k2 (1 - f12) values in every batch, though a value is"
    " asked for once while it stays; and it counts nothing for v_C",
    Method.SM_D1: "v_C is left out, and new values are counted as m2 (1 - f21), so none where S1 has more",
    Method.SM_D2: "B'1: f12 is the share of S1 whose values S2 can have, not of those W2 holds just now",
    Method.SM_B: "B'1: as in SM-D2, f12 does not see that a small window holds few of S2's values",
}


@dataclass(frozen=True)
class Tracking:
    """How a model tracks runs."""

    correlation: float
    median_error: float
    bias: float  # simulated over modelled time, all joins together


def tracking(measured: Sequence[Measured]) -> Tracking:
    """Correlation, median error and bias of several joins."""
    modelled = [one.modelled for one in measured]
    run = [one.simulated for one in measured]
    return Tracking(
        statistics.correlation(modelled, run),
        statistics.median(abs(a / b - 1) for a, b in zip(run, modelled, strict=True)),
        math.fsum(run) / math.fsum(modelled),
    )


def terms_off(measured: Sequence[Measured]) -> dict[str, float]:
    """The terms that are most off, as shares of the modelled time; above 0 the run took longer."""
    whole = math.fsum(one.modelled for one in measured)
    off: dict[str, float] = {}
    for one in measured:
        for name, (modelled, simulated) in one.terms.items():
            off[name] = off.get(name, 0.0) + (simulated - modelled) / whole
    worst = sorted(off, key=lambda name: -abs(off[name]))[:TERMS_SHOWN]
    return {name: round(off[name], 3) for name in worst}


def random_side(rng: random.Random) -> JoinSide:
    """A stream with parameters from Table 2."""
    rate = rng.choice(RATES_PER_S)
    return JoinSide(
        rate_per_s=rate,
        window_tuples=rate * rng.choice(WINDOWS_MS) / 1000,
        tuple_bytes=rng.choice(ATTRIBUTES) * ATTRIBUTE_BYTES,
        key_bytes=ATTRIBUTE_BYTES,
        distinct=1 / rng.choice(SELECTIVITY_FACTORS),
    )


@figure("semijoin-model", "Semijoin: modelled cost beside simulated execution time, over random queries")
def model_figure(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Every method over random pairs of streams, and greedy plans of four-way queries."""
    joins, queries, most = (20, 4, 20_000.0) if quick else (200, 40, 300_000.0)
    rng = random.Random(f"{seed} model")
    pairs = [(random_side(rng), random_side(rng)) for _ in range(joins)]
    tasks = {
        method: [
            OneWayTask(
                source, target, link=PAPER_LINK, interval_s=DEFAULT_INTERVAL_S, method=method, seed=seed + n
            )
            for n, (source, target) in enumerate(pairs)
        ]
        for method in Method
    }
    by_method = run_rows(runner, tasks, run_one_way)
    plan_tasks = [QueryTask(name, n, 0.5, most, seed) for name in TOPOLOGIES for n in range(queries)]
    plans = [one.greedy for one in runner(plan_tasks, run_query) if one.greedy]
    scatter = [
        Series(m.value, [one.modelled for one in row], [one.simulated for one in row])
        for m, row in by_method.items()
    ]
    panels = (
        _error_panel(by_method),
        Panel("one-way joins", "modelled, s per s", "simulated, s per s", [_in_order(s) for s in scatter]),
        Panel(
            "plans of four-way queries",
            "modelled, s per s",
            "simulated, s per s",
            [_in_order(Series("greedy", [one.modelled for one in plans], [one.simulated for one in plans]))],
        ),
    )
    parameters = {"one-way joins": joins * len(by_method), "four-way plans": len(plans), "seed": seed}
    return FigureResult("semijoin-model", parameters, panels, _claims(by_method, plans))


def _in_order(series: Series) -> Series:
    points = sorted(zip(series.numbers, series.y, strict=True))
    return Series(series.name, [x for x, _ in points], [y for _, y in points])


def _error_panel(by_method: Mapping[Method, Sequence[Measured]]) -> Panel:
    numbers = list(range(1, len(by_method) + 1))
    found = [tracking(row) for row in by_method.values()]
    names = ", ".join(f"{n} {method.value}" for n, method in enumerate(by_method, start=1))
    lines = [
        Series("median error", numbers, [one.median_error for one in found]),
        Series("1 - correlation", numbers, [1 - one.correlation for one in found]),
    ]
    return Panel("error by method", names, "share", lines, kind="bar")


def _claims(by_method: Mapping[Method, Sequence[Measured]], plans: Sequence[Measured]) -> tuple[Claim, ...]:
    everything = [one for row in by_method.values() for one in row]
    claims = [
        _claim(
            "the modelled cost of one-way joins", everything, "see the claims by method, SM-S2's above all"
        ),
        _claim("the modelled cost of four-way plans", plans, "the terms are those of the one-way joins"),
    ]
    claims += [
        _claim(f"the formula of {method.value}", row, REASONS[method]) for method, row in by_method.items()
    ]
    return tuple(claims)


def _claim(what: str, measured: Sequence[Measured], why: str) -> Claim:
    found = tracking(measured)
    return Claim(
        f"{what} tracks the simulated execution time (correlation at least {TRACKS})",
        found.correlation >= TRACKS,
        {
            "correlation": round(found.correlation, 3),
            "median error": round(found.median_error, 3),
            "simulated / modelled": round(found.bias, 3),
            "terms most off": terms_off(measured),
        },
        why,
    )
