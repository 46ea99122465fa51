"""PMJoin's figure 1 (DASFAA 2006, section 1): Example 1's three schemes, modelled and simulated."""

from __future__ import annotations

from watersmeet.lab.figures.chart import Panel, Series
from watersmeet.lab.figures.registry import Claim, FigureResult, Runner, figure
from watersmeet.lab.wan.pmjoin.example import PAPER_COSTS, SCHEMES, SchemeCost, simulate_scheme

Task = tuple[str, float, int]

ENOUGH = 0.05  # how far a simulated cost may be from the modelled one


def run_scheme(task: Task) -> SchemeCost:
    scheme, seconds, seed = task
    return simulate_scheme(scheme, seconds, seed=seed)


@figure("pmjoin-1", "PMJoin, Figure 1 and Example 1: communication cost of three schemes")
def pmjoin_1(quick: bool, seed: int, runner: Runner) -> FigureResult:
    seconds = dict(zip(SCHEMES, (100.0, 200.0, 100_000.0) if quick else (1000.0, 2000.0, 1e6), strict=True))
    found = dict(zip(SCHEMES, runner([(s, seconds[s], seed) for s in SCHEMES], run_scheme), strict=True))
    claims = [
        Claim(
            f"{scheme} costs {PAPER_COSTS[scheme]:g} bytes/s, modelled and simulated (within {ENOUGH:.0%})",
            abs(cost.modelled / PAPER_COSTS[scheme] - 1) < 0.01
            and abs(cost.simulated / cost.modelled - 1) <= ENOUGH,
            {
                "modelled": round(cost.modelled, 4),
                "simulated": round(cost.simulated, 4),
                "seconds": cost.seconds,
            },
        )
        for scheme, cost in found.items()
    ]
    panel = Panel(
        "Example 1",
        ", ".join(f"{n} {scheme}" for n, scheme in enumerate(SCHEMES, start=1)),
        "bytes a second",
        [
            Series("modelled", (1, 2, 3), [cost.modelled for cost in found.values()]),
            Series("simulated", (1, 2, 3), [cost.simulated for cost in found.values()]),
        ],
        "bar",
        log_y=True,
    )
    return FigureResult("pmjoin-1", {"seconds": seconds, "seed": seed}, (panel,), tuple(claims))
