"""The papers' figures by name.

A figure is a function registered with `@figure(name, title)` in a module of a paper's package here. It gets
`quick` (small sizes), a seed and a runner, and returns a `FigureResult`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.figure import FigureResult
from watersmeet.lab.figures.runners import Runner, run_here

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
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], f"{__package__}."):
        importlib.import_module(module.name)
    return {name: _REGISTRY[name][0] for name in sorted(_REGISTRY)}


def run_figure(
    name: str, *, quick: bool = False, seed: int = 0, runner: Runner | None = None
) -> FigureResult:
    """Runs a figure's simulations and judges its claims."""
    titles = figure_titles()
    if name not in titles:
        raise ConfigurationError(f"there is no figure {name!r}; there are {', '.join(titles)}")
    result = _REGISTRY[name][1](quick, seed, runner or run_here)
    return replace(result, title=result.title or titles[name])
