"""RJoin's figures 7 and 8 (EDBT 2008, section 8): sliding windows and the load they cap."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.lab.figures.figure import Claim, FigureResult, judged
from watersmeet.lab.figures.registry import figure
from watersmeet.lab.figures.rjoin.experiment import Experiment, run_experiment
from watersmeet.lab.figures.rjoin.panels import (
    OWN_VALUES,
    own_values,
    parameters,
    sized_shared,
    slowdown,
    top_share,
    traffic_and_loads,
)
from watersmeet.lab.figures.runners import Runner
from watersmeet.lab.figures.svg_chart import Panel, Series
from watersmeet.lab.figures.trends import rises


def _windows(quick: bool) -> tuple[int, ...]:
    return (50, 200, 600) if quick else (50, 100, 200, 400, 600)


def _windowed(base: Experiment, quick: bool, checkpoints: tuple[int, ...]) -> list[Experiment]:
    return [
        replace(base, checkpoints=checkpoints, workload=replace(base.workload, window_ticks=window))
        for window in _windows(quick)
    ]


@figure("rjoin-7", "RJoin, Figure 7: the size of a sliding window")
def rjoin_7(quick: bool, seed: int, runner: Runner) -> FigureResult:
    size, base = sized_shared(quick, seed)
    experiments = _windowed(base, quick, (size.tuples,))
    runs = [run[-1] for run in runner([*experiments, *own_values(experiments)], run_experiment)]
    snapshots, apart = runs[: len(experiments)], runs[len(experiments) :]
    messages = [snap.messages for snap in snapshots]
    shares = [top_share(snap.processing) for snap in snapshots]
    claims = (
        Claim("larger windows need more traffic", rises(messages), messages),
        Claim(
            "larger windows mean more query processing and storage",
            all(rises([sum(getattr(s, load)) for s in snapshots]) for load in ("processing", "storage")),
            {
                "processing": [sum(s.processing) for s in snapshots],
                "storage": [sum(s.storage) for s in snapshots],
            },
        ),
        Claim(
            OWN_VALUES,
            rises([snap.messages for snap in apart]) and rises([sum(snap.processing) for snap in apart]),
            {"messages": [s.messages for s in apart], "processing": [sum(s.processing) for s in apart]},
        ),
        Claim("the load is shared in the same pattern", max(shares) - min(shares) < 0.15, shares),
    )
    labels = [f"W = {window}" for window in _windows(quick)]
    panels = traffic_and_loads("window, tuples", list(_windows(quick)), labels, snapshots, base)
    return FigureResult("rjoin-7", parameters(base, window_ticks=_windows(quick)), panels, claims)


@figure("rjoin-8", "RJoin, Figure 8: the load of each new tuple, added up, by window size")
def rjoin_8(quick: bool, seed: int, runner: Runner) -> FigureResult:
    size, base = sized_shared(quick, seed)
    step = size.tuples // 20
    checkpoints = tuple(range(step, size.tuples + 1, step))
    experiments = _windowed(base, quick, checkpoints)
    every = runner([*experiments, *own_values(experiments)], run_experiment)
    runs, apart = every[: len(experiments)], every[len(experiments) :]
    slopes_apart = [slowdown([sum(snap.processing) for snap in run]) for run in apart]
    capped_apart = slopes_apart[0] < 1.5 and slopes_apart[-1] > 1.5 * slopes_apart[0]
    x, windows = list(checkpoints), _windows(quick)
    processing = [[sum(snap.processing) for snap in run] for run in runs]
    stored = [[snap.stored for snap in run] for run in runs]
    slopes = [slowdown(loads) for loads in processing]
    claims = (
        Claim(
            "larger windows create more load, tuple by tuple",
            rises([loads[-1] for loads in processing]) and rises([loads[-1] for loads in stored]),
            {"processing": [loads[-1] for loads in processing], "stored": [loads[-1] for loads in stored]},
        ),
        Claim(
            "a window caps the load: under the smallest a late tuple costs hardly more than an early one, "
            "under the largest much more",
            slopes[0] < 1.5 and slopes[-1] > 1.5 * slopes[0],
            slopes,
        ),
        judged(
            OWN_VALUES,
            capped_apart,
            slopes_apart,
            "where joins are rare, almost all work is the first rewriting",
        ),
    )
    panels = tuple(
        Panel(
            title,
            "tuples",
            "load so far",
            [Series(f"W = {window}", x, loads) for window, loads in zip(windows, found, strict=True)],
        )
        for title, found in (("(a) query processing load", processing), ("(b) storage load", stored))
    )
    return FigureResult("rjoin-8", parameters(base, window_ticks=windows), panels, claims)
