"""The papers' figures by name: run one, and write it as JSON, CSV, Parquet and SVG.

A figure is a function registered with `@figure(name, title)` in a module of this package whose name ends with
`_figures`. It gets `quick` (small sizes), a seed and a runner, and returns a `FigureResult`. A runner takes
tasks and a function and returns the results in order: from this process (`run_here`), from several
(`run_in_processes`), or as a Spark job (watersmeet.spark.jobs.sweep). Tasks and results can be pickled.
"""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import watersmeet.lab.figures
from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.chart import Panel, draw

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[int, int], object]  # told how many simulations are done, and how many there are


class Runner(Protocol):
    """Applies a function to every task, somehow."""

    def __call__(self, tasks: Sequence[Task], function: Callable[[Task], Result]) -> list[Result]: ...


@dataclass(frozen=True)
class Claim:
    """What the paper says of a figure, and whether our numbers bear it out."""

    text: str
    holds: bool
    value: Any  # what was measured
    why: str = ""  # where it does not hold, or holds only in part: the reason


@dataclass(frozen=True)
class FigureResult:
    """A figure's numbers, the claims they decide, and the panels to draw."""

    figure: str
    parameters: dict[str, Any]
    panels: tuple[Panel, ...]
    claims: tuple[Claim, ...]
    title: str = field(default="")

    def to_dict(self) -> dict[str, Any]:
        """The figure as plain values for JSON, which knows no infinity: null stands for it."""
        plain: dict[str, Any] = _finite(self._as_dict())
        return plain

    def _as_dict(self) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "title": self.title,
            "parameters": self.parameters,
            "series": [
                {
                    "name": f"{panel.title}: {series.name}",
                    "x_label": panel.x_label,
                    "y_label": panel.y_label,
                    "x": list(series.x),
                    "y": list(series.y),
                }
                for panel in self.panels
                for series in panel.series
            ],
            "claims": [
                {"text": claim.text, "holds": claim.holds, "value": claim.value}
                | ({"why": claim.why} if claim.why else {})
                for claim in self.claims
            ],
        }


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _finite(part) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
        case _:
            return value


FigureFunction = Callable[[bool, int, Runner], FigureResult]  # quick, seed, runner
_REGISTRY: dict[str, tuple[str, FigureFunction]] = {}


def figure(name: str, title: str) -> Callable[[FigureFunction], FigureFunction]:
    """Registers the function that makes a figure."""

    def register(function: FigureFunction) -> FigureFunction:
        if name in _REGISTRY and _REGISTRY[name][1] is not function:
            raise ConfigurationError(f"two figures are named {name}")
        _REGISTRY[name] = (title, function)
        return function

    return register


def figure_titles() -> dict[str, str]:
    """Every figure's name and title, in order of names."""
    for paper in pkgutil.iter_modules(watersmeet.lab.figures.__path__, "watersmeet.lab.figures."):
        if paper.ispkg:
            for module in pkgutil.iter_modules(
                importlib.import_module(paper.name).__path__, f"{paper.name}."
            ):
                importlib.import_module(module.name)
    return {name: _REGISTRY[name][0] for name in sorted(_REGISTRY)}


def figure_names() -> list[str]:
    """The names `run_figure` takes."""
    return list(figure_titles())


def run_figure(
    name: str, *, quick: bool = False, seed: int = 0, runner: Runner | None = None
) -> FigureResult:
    """Runs a figure's simulations and judges its claims."""
    titles = figure_titles()
    if name not in titles:
        raise ConfigurationError(f"there is no figure {name!r}; there are {', '.join(titles)}")
    result = _REGISTRY[name][1](quick, seed, runner or run_here)
    title = result.title or titles[name]
    return FigureResult(result.figure, result.parameters, result.panels, result.claims, title)


def run_here(
    tasks: Sequence[Task], function: Callable[[Task], Result], progress: Progress | None = None
) -> list[Result]:
    """One task after another, in this process."""
    results = []
    for task in tasks:
        results.append(function(task))
        if progress:
            progress(len(results), len(tasks))
    return results


def run_in_processes(workers: int, progress: Progress | None = None) -> Runner:
    """Several tasks at a time, each in a process of this machine."""

    def runner(tasks: Sequence[Task], function: Callable[[Task], Result]) -> list[Result]:
        with ProcessPoolExecutor(workers) as pool:
            running = [pool.submit(function, task) for task in tasks]
            for done, _ in enumerate(as_completed(running), start=1):
                if progress:
                    progress(done, len(tasks))
            return [task.result() for task in running]

    return runner


def write_figure(result: FigureResult, directory: str | Path) -> list[Path]:
    """Writes NAME.json, NAME.csv, NAME.parquet and NAME.svg; says where."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    table = to_table(result)
    paths = {ending: folder / f"{result.figure}.{ending}" for ending in ("json", "csv", "parquet", "svg")}
    text = json.dumps(result.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    paths["json"].write_text(text + "\n", encoding="utf-8")
    pyarrow.csv.write_csv(table, paths["csv"])
    pyarrow.parquet.write_table(table, paths["parquet"])
    paths["svg"].write_text(draw(result.title or result.figure, result.panels), encoding="utf-8")
    return list(paths.values())


def to_table(result: FigureResult) -> pa.Table:
    """The figure's points, one a row."""
    points = [
        (panel.title, series.name, x, float(y))
        for panel in result.panels
        for series in panel.series
        for x, y in zip(series.numbers, series.y, strict=True)
    ]
    columns = list(zip(*points, strict=True)) if points else [(), (), (), ()]
    return pa.table(
        {
            "panel": pa.array(columns[0], pa.string()),
            "series": pa.array(columns[1], pa.string()),
            "x": pa.array(columns[2], pa.float64()),
            "y": pa.array(columns[3], pa.float64()),
        }
    )
