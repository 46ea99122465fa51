"""What PMJoin's figures have in common: points averaged over workloads, and the model beside simulation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, TypeVar

from watersmeet.lab.figures.figure import Claim
from watersmeet.lab.figures.pmjoin.costs import Cost, CostTask, price_and_simulate
from watersmeet.lab.figures.runners import Runner, run_rows
from watersmeet.lab.figures.svg_chart import Panel, Series

Key = TypeVar("Key", bound=Hashable)

CLOSE = 0.05  # the median difference up to which a model counts as borne out
RARE = (
    "where the largest differences are, results late in a chain of joins hang on few early ones, so that the"
    " mean is reached only over runs far longer than these"
)


@dataclass(frozen=True)
class Averaged:
    """One point of a figure: its mean cost over all workloads, and the first of them, perhaps simulated."""

    modelled: float
    first: Cost


def sweep(
    points: Mapping[Key, CostTask],
    repeats: int,
    runner: Runner,
    *,
    simulated: Sequence[Key] = (),
    simulated_s: float = 0.0,
) -> dict[Key, Averaged]:
    """Every point over so many workloads, the seeds counting up; the first is simulated for some points."""
    chosen = set(simulated)
    tasks = {
        key: [
            replace(
                task,
                setting=replace(task.setting, seed=task.setting.seed + n),
                simulated_s=simulated_s if n == 0 and key in chosen else 0.0,
            )
            for n in range(repeats)
        ]
        for key, task in points.items()
    }
    found = run_rows(runner, tasks, price_and_simulate)
    return {key: Averaged(fmean(cost.modelled for cost in costs), costs[0]) for key, costs in found.items()}


def agreement(found: Mapping[Any, Averaged]) -> Claim:
    """Whether simulated costs are the modelled ones."""
    pairs = [
        (one.first.modelled, one.first.simulated) for one in found.values() if one.first.simulated is not None
    ]
    return agreement_of(pairs)


def agreement_of(pairs: Sequence[tuple[float, float]]) -> Claim:
    """The same for pairs of a modelled and a simulated cost."""
    errors = [abs(simulated / modelled - 1) for modelled, simulated in pairs if modelled]
    value = {
        "points simulated": len(pairs),
        "median difference": round(median(errors), 4),
        "largest": round(max(errors), 4),
    }
    holds = median(errors) <= CLOSE
    why = "" if holds and max(errors) <= 2 * CLOSE else RARE
    return Claim(f"simulated costs are the modelled ones (median within {CLOSE:.0%})", holds, value, why)


@dataclass(frozen=True)
class Grid:
    """The points of a figure by panel, line and x."""

    found: Mapping[tuple[str, str, int], Averaged]
    xs: Sequence[int]

    def line(self, panel: str, line: str) -> list[float]:
        """One line's mean costs."""
        return [self.found[panel, line, x].modelled for x in self.xs if (panel, line, x) in self.found]

    def panels(self, lines: Sequence[str], x_label: str, *, log_x: bool = False) -> tuple[Panel, ...]:
        """A panel for each name, the simulated points of a line as a line of their own."""
        return tuple(
            Panel(
                f"({chr(97 + n)}) {panel}",
                x_label,
                "tuples a second",
                [series for line in lines for series in self._series(panel, line)],
                log_x=log_x,
            )
            for n, panel in enumerate(dict.fromkeys(panel for panel, _, _ in self.found))
        )

    def _series(self, panel: str, line: str) -> list[Series]:
        xs = [x for x in self.xs if (panel, line, x) in self.found]
        simulated = [(x, self.found[panel, line, x].first) for x in xs]
        seen = [(x, cost) for x, cost in simulated if cost.simulated is not None]
        series = [Series(line, xs, self.line(panel, line))]
        if seen:
            names = (f"{line}, one workload", f"{line}, the same simulated")
            modelled, measured = [c.modelled for _, c in seen], [c.simulated or 0.0 for _, c in seen]
            series += [
                Series(n, [x for x, _ in seen], y) for n, y in zip(names, (modelled, measured), strict=True)
            ]
        return series


def rounded(values: Sequence[float], digits: int = 1) -> list[float]:
    return [round(value, digits) for value in values]
