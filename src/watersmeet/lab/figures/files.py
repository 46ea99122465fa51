"""Figures in a folder: written as JSON, CSV, Parquet and SVG, and read back from the JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.figure import FigureResult
from watersmeet.lab.figures.svg_chart import draw

_KEYS = {"figure": str, "parameters": dict, "series": list, "claims": list}
_PARTS = {"series": {"name", "x", "y"}, "claims": {"text", "holds", "value"}}


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


def read_figures(directory: str | Path) -> list[dict[str, Any]]:
    """The figures of a folder, in order of names."""
    folder = Path(directory)
    if not folder.is_dir():
        raise ConfigurationError(f"there is no folder {folder}; `watersmeet lab figure NAME --out` makes one")
    figures = [_read(path) for path in sorted(folder.glob("*.json"))]
    if not figures:
        raise ConfigurationError(f"{folder} holds no figure; run `watersmeet lab figure NAME --out {folder}`")
    return sorted(figures, key=lambda figure: str(figure["figure"]))


def _read(path: Path) -> dict[str, Any]:
    try:
        figure = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(figure, dict):
        raise ConfigurationError(f"{path} is not a figure's numbers: it holds no object")
    for key, type_ in _KEYS.items():
        if not isinstance(figure.get(key), type_):
            raise ConfigurationError(f"{path} is not a figure's numbers: it has no {key!r}")
    for key, needed in _PARTS.items():
        for part in figure[key]:
            if not isinstance(part, dict) or needed - part.keys():
                raise ConfigurationError(
                    f"{path} is not a figure's numbers: an entry of {key!r} is incomplete"
                )
    return figure


def copy_pictures(figures: Sequence[Mapping[str, Any]], folder: Path, to: Path) -> None:
    """Copies the figures' drawings from the folder of their numbers."""
    to.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        name = f"{figure['figure']}.svg"
        if not (folder / name).is_file():
            raise ConfigurationError(f"{folder / name} is missing: run the figure again with --out {folder}")
        shutil.copyfile(folder / name, to / name)
