"""A comparison for people: a table on the terminal, JSON, and a bar chart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from watersmeet.bench.compare import ENGINE_NAMES, Comparison, Figures
from watersmeet.lab.figures import Panel, Series, draw

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def as_table(comparison: Comparison) -> Table:
    """One workload at one batch size, an engine a row."""
    title = f"{comparison.workload}, {comparison.batches} batches of {comparison.batch_rows:,} rows"
    table = Table(title=title, title_justify="left")
    table.add_column("engine")
    for column in ("rows/s", "p50 ms", "p95 ms", "peak MB", "state MB", "answers", "ours is"):
        table.add_column(column, justify="right")
    for figures in comparison.figures:
        table.add_row(*_cells(comparison, figures))
    return table


def _cells(comparison: Comparison, figures: Figures) -> list[str]:
    ratio = comparison.speedup(figures.engine)
    compared = "" if figures.engine == "ours" or ratio is None else f"{ratio:.2f}x as fast"
    return [
        figures.engine,
        f"{figures.rows_per_s:,.0f}",
        f"{figures.p50_ms:,.0f}",
        f"{figures.p95_ms:,.0f}",
        f"{figures.peak_memory_bytes / 1e6:,.0f}",
        f"{figures.state_bytes / 1e6:,.1f}" if figures.state_bytes else "",
        f"{figures.answers:,}",
        compared,
    ]


def as_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Every figure, and our speed over each other engine's."""
    return {
        "comparisons": [
            {
                **asdict(comparison),
                "ratios": {
                    figures.engine: comparison.speedup(figures.engine)
                    for figures in comparison.figures
                    if figures.engine != "ours"
                },
            }
            for comparison in comparisons
        ]
    }


def as_svg(comparisons: Sequence[Comparison]) -> str:
    """Steady rows/s, a panel for each batch size, a group of bars for each workload."""
    panels = []
    for batch_rows in dict.fromkeys(comparison.batch_rows for comparison in comparisons):
        group = [comparison for comparison in comparisons if comparison.batch_rows == batch_rows]
        series = []
        for engine in ENGINE_NAMES:
            known = [(c.workload, figures) for c in group if (figures := c.of(engine))]
            if known:
                names, values = [name for name, _ in known], [figures.rows_per_s for _, figures in known]
                series.append(Series(engine, names, values))
        panels.append(
            Panel(f"{batch_rows:,} rows a batch", "workload", "rows/s", series, kind="bar", log_y=True)
        )
    return draw("Steady throughput on this machine", panels)


def write_figures(path: Path, facts: Mapping[str, Any], figures: Sequence[DataclassInstance]) -> Path:
    """Writes the figures of a comparison as JSON, with the facts they hold for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**facts, "figures": [asdict(each) for each in figures]}, indent=2) + "\n")
    return path


def write(comparisons: Sequence[Comparison], folder: Path) -> tuple[Path, Path]:
    """Writes bench.json and bench.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    data, picture = folder / "bench.json", folder / "bench.svg"
    data.write_text(json.dumps(as_json(comparisons), indent=2) + "\n")
    picture.write_text(as_svg(comparisons))
    return data, picture
