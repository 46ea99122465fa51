"""RJoin's figures (EDBT 2008, section 8): every one runs and is written."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from watersmeet.lab.figures import run_figure, write_figure
from watersmeet.lab.figures.rjoin.experiment import Experiment, Snapshot

RJOIN = [f"rjoin-{number}" for number in range(2, 10)]


def small(
    tasks: Sequence[Experiment], function: Callable[[Experiment], list[Snapshot]]
) -> list[list[Snapshot]]:
    """Runs a figure's experiments on fewer nodes, with fewer queries and tuples."""
    return [
        function(
            replace(
                task,
                nodes=40,
                queries=max(4, task.queries // 50),
                checkpoints=tuple(count // 8 for count in task.checkpoints),
                warm_up=20,
                balance_every=5 if task.balance_every else None,
            )
        )
        for task in tasks
    ]


@pytest.mark.parametrize("name", RJOIN)
def test_every_rjoin_figure_runs_and_is_written(name: str, tmp_path: Path) -> None:
    result = run_figure(name, quick=True, seed=3, runner=small)
    paths = write_figure(result, tmp_path / "out")
    assert [path.suffix for path in paths] == [".json", ".csv", ".parquet", ".svg"]
    written = json.loads(paths[0].read_text())
    assert written["figure"] == name
    assert written["parameters"]["seed"] == 3
    assert written["series"]
    assert all(len(series["x"]) == len(series["y"]) > 0 for series in written["series"])
    assert all(series["x_label"] and series["y_label"] for series in written["series"])
    assert written["claims"]
    assert all(isinstance(claim["holds"], bool) and claim["text"] for claim in written["claims"])
    points = sum(len(series["x"]) for series in written["series"])
    assert pyarrow.csv.read_csv(paths[1]).num_rows == pyarrow.parquet.read_table(paths[2]).num_rows == points
    assert len(ET.parse(paths[3]).getroot().findall(".//{*}g")) == len(result.panels)


def test_a_figure_is_a_function_of_its_seed() -> None:
    first, again, other = (
        run_figure("rjoin-3", quick=True, seed=seed, runner=small).to_dict() for seed in (1, 1, 2)
    )
    assert first == again
    assert first["series"] != other["series"]
