"""PMJoin's figures 5 to 7 (DASFAA 2006, section 4.1): Algorithm 1 beside Simple, Local and the best plan.

Costs are tuples a second between nodes, by the rate model, averaged over random workloads; the first
workload of some points is simulated as well. Windows are in seconds, as printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.pmjoin.costs import CostTask, Setting
from watersmeet.lab.figures.pmjoin.sweep import Grid, agreement, rounded, sweep
from watersmeet.lab.figures.registry import figure
from watersmeet.lab.figures.runners import Runner
from watersmeet.plan.sites.pmjoin.pmjoin import Optimizer

SIMPLE, HEURISTIC, OPTIMAL, LOCAL = "Simple", "Heuristic", "Optimal", "Local"
OPTIMIZERS: dict[str, Optimizer] = {
    SIMPLE: "simple",
    HEURISTIC: "heuristic",
    OPTIMAL: "optimal",
    LOCAL: "local",
}
NEAR = 1.1  # "very close": within this of the best plan, on average over the points
GREEDY = "Algorithm 1 decides on one stream at a time, and looks no further than one join ahead"


@figure("pmjoin-5", "PMJoin, Figure 5: the heuristic algorithm over data ranges")
def pmjoin_5(quick: bool, seed: int, runner: Runner) -> FigureResult:
    """Fast streams with large windows (LASW) or small ones (HASW), of similar distributions or different."""
    ranges = (10, 100, 1000, 10_000) if quick else (10, 100, 1000, 10_000, 100_000)
    repeats = 3 if quick else 10
    lines = (SIMPLE, HEURISTIC, OPTIMAL)
    settings = {
        "LASW, similar": Setting(likeness="similar", fast_windows="large", seed=seed),
        "LASW, different": Setting(likeness="different", fast_windows="large", seed=seed),
        "HASW, similar": Setting(likeness="similar", fast_windows="small", seed=seed),
        "HASW, different": Setting(likeness="different", fast_windows="small", seed=seed),
    }
    points = {
        (case, line, values): CostTask(setting.over(values=values), optimizer=OPTIMIZERS[line])
        for case, setting in settings.items()
        for line in lines
        for values in ranges
    }
    shown = [key for key in points if key[1] == HEURISTIC and (not quick or key[2] == 1000)]
    grid = Grid(sweep(points, repeats, runner, simulated=shown, simulated_s=2.0 if quick else 10.0), ranges)
    simple, heuristic = ([grid.line(case, line) for case in settings] for line in (SIMPLE, HEURISTIC))
    claims = (
        Claim(
            "Simple's cost is the same for every range",
            all(max(line) - min(line) < 1e-6 for line in simple),
            rounded([line[0] for line in simple]),
        ),
        Claim(
            "for the smallest range the heuristic and the best plan cost what Simple costs",
            all(
                grid.line(case, line)[0] > 0.99 * grid.line(case, SIMPLE)[0]
                for case in settings
                for line in lines
            ),
            {case: rounded([grid.line(case, line)[0] for line in lines]) for case in settings},
        ),
        Claim(
            "their cost drops as the range grows",
            all(_never_rises(line) and line[-1] < line[0] for line in heuristic),
            {case: rounded(line) for case, line in zip(settings, heuristic, strict=True)},
        ),
        _close(grid, list(settings)),
        agreement(grid.found),
    )
    parameters = {"streams": 10, "ranges": ranges, "workloads": repeats, "seed": seed}
    return FigureResult("pmjoin-5", parameters, grid.panels(lines, "data range", log_x=True), claims)


@figure("pmjoin-6", "PMJoin, Figure 6: the heuristic algorithm over numbers of streams")
def pmjoin_6(quick: bool, seed: int, runner: Runner) -> FigureResult:
    counts = (2, 4, 6, 8, 10) if quick else (2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
    repeats = 5 if quick else 20
    lines, case = (SIMPLE, HEURISTIC, OPTIMAL), "one stream a node"
    points = {
        (case, line, count): CostTask(
            Setting(streams=count, rates_per_s=(100.0, 100.0), seed=seed), optimizer=OPTIMIZERS[line]
        )
        for line in lines
        for count in counts
        if line != OPTIMAL or count <= 14
    }
    shown = [key for key in points if key[1] == HEURISTIC]
    found = sweep(points, repeats, runner, simulated=shown, simulated_s=2.0 if quick else 10.0)
    grid = Grid(found, counts)
    simple, heuristic = grid.line(case, SIMPLE), grid.line(case, HEURISTIC)
    saved = [a - b for a, b in zip(simple, heuristic, strict=True)]
    later, sooner = fmean(saved[len(saved) // 2 :]), fmean(saved[: len(saved) // 2])
    claims = (
        Claim(
            "Simple's cost grows in proportion to the number of streams it ships",
            all(abs(cost / (count - 1) - 100.0) < 1e-6 for cost, count in zip(simple, counts, strict=True)),
            rounded(simple),
        ),
        Claim(
            "the saving over Simple is larger with more streams (second half of the counts, first half)",
            later > sooner,
            rounded([later, sooner]),
        ),
        _close(grid, [case]),
        agreement(found),
    )
    parameters = {"range": 1000, "rate": 100, "streams": counts, "workloads": repeats, "seed": seed}
    return FigureResult("pmjoin-6", parameters, grid.panels(lines, "streams"), claims)


@figure("pmjoin-7", "PMJoin, Figure 7: several streams on a node")
def pmjoin_7(quick: bool, seed: int, runner: Runner) -> FigureResult:
    counts = (5, 7, 9, 11) if quick else (5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
    repeats = 5 if quick else 20
    lines, case = (LOCAL, HEURISTIC, OPTIMAL), "five nodes"
    points = {
        (case, line, count): CostTask(
            Setting(streams=count, rates_per_s=(100.0, 500.0), nodes=5, seed=seed), optimizer=OPTIMIZERS[line]
        )
        for line in lines
        for count in counts
    }
    shown = [key for key in points if key[1] == HEURISTIC]
    found = sweep(points, repeats, runner, simulated=shown, simulated_s=2.0 if quick else 10.0)
    grid = Grid(found, counts)
    local, heuristic = grid.line(case, LOCAL), grid.line(case, HEURISTIC)
    claims = (
        Claim(
            "the heuristic costs less than joining all local streams first",
            all(ours < theirs for ours, theirs in zip(heuristic, local, strict=True)),
            {
                LOCAL: rounded(local),
                HEURISTIC: rounded(heuristic),
                OPTIMAL: rounded(grid.line(case, OPTIMAL)),
            },
            "under long windows a local join that is not selective multiplies its streams",
        ),
        agreement(found),
    )
    parameters = {"range": 1000, "nodes": 5, "streams": counts, "workloads": repeats, "seed": seed}
    return FigureResult("pmjoin-7", parameters, grid.panels(lines, "streams"), claims)


def _never_rises(line: Sequence[float]) -> bool:
    return all(after <= before * 1.001 for before, after in pairwise(line))


def _close(grid: Grid, panels: Sequence[str]) -> Claim:
    """Whether the heuristic is very close to the best plan."""
    ratios = [
        grid.found[panel, HEURISTIC, x].modelled / grid.found[panel, OPTIMAL, x].modelled
        for panel in panels
        for x in grid.xs
        if (panel, OPTIMAL, x) in grid.found and grid.found[panel, OPTIMAL, x].modelled
    ]
    mean, worst = fmean(ratios), max(ratios)
    return Claim(
        f"the heuristic is very close to the best plan (within {NEAR - 1:.0%} on average)",
        mean <= NEAR,
        {"mean ratio": round(mean, 3), "largest": round(worst, 3)},
        GREEDY if worst > NEAR else "",
    )
