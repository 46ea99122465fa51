"""The page of figures: claims, verdicts and numbers as the JSON files have them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.paths import ROOT
from watersmeet.cli.lab import lab_commands
from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.files import read_figures, write_figure
from watersmeet.lab.figures.page import COLUMNS, figure_page
from watersmeet.lab.figures.readable import readable, thinned
from watersmeet.lab.figures.registry import figure_titles
from watersmeet.lab.figures.svg_chart import Panel, Series

RESULT = FigureResult(
    figure="rjoin-2",
    title="Rates | known",
    parameters={"nodes": 200, "strategy": None, "varied": {"by": "joins", "over": [1, 2]}, "seed": 3},
    panels=(
        Panel(
            "traffic",
            "tuples",
            "messages",
            (Series("worst", (25, 50), (88.225, 1234.5)), Series("best", (50, 100), (7, math.inf))),
        ),
        Panel("load", "rank", "load", (Series("all", tuple(range(1, 201)), tuple(range(200, 0, -1))),)),
    ),
    claims=(
        Claim("worst costs more", True, [88.225, 7]),
        Claim("worst < 10 times best", False, {"ratio": 12.604}, "it is *dear*"),
        Claim("it ends", False, None),
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_figure(RESULT, tmp_path / "figures")
    return tmp_path / "figures"


def test_every_claim_has_its_verdict_value_and_reason(folder: Path) -> None:
    page = figure_page(read_figures(folder))
    assert "- **holds**: worst costs more. Measured: 88.22, 7." in page
    assert r"- **differs**: worst &lt; 10 times best. Measured: ratio: 12.6. Note: it is \*dear\*." in page
    assert "- **differs**: it ends. Measured: none. Note: no reason recorded." in page
    assert "| [rjoin-2](#rjoin-2) | Rates \\| known | 1 of 3 |" in page
    joined = " ".join(page.split())
    assert "1 of 3 claims of the papers hold in these runs, 2 differ, 1 of them with no reason" in joined


def test_lines_of_a_panel_share_a_table(folder: Path) -> None:
    page = figure_page(read_figures(folder))
    assert (
        "| traffic: messages, by tuples | 25 | 50 | 100 |\n| --- | ---: | ---: | ---: |\n"
        "| worst | 88.22 | 1234 |  |\n| best |  | 7 | ∞ |\n"
    ) in page
    assert "| load: load, by rank | 1 | 29 | 58 | 86 | 115 | 143 | 172 | 200 |" in page
    assert "| all | 200 | 172 | 143 | 115 | 86 | 58 | 29 | 1 |" in page
    assert "Parameters: nodes 200; strategy none; varied by: joins; over: 1, 2; seed 3." in page


def test_commands_at_the_top_are_those_that_made_it(folder: Path) -> None:
    quick = figure_page(read_figures(folder), folder="there", quick=True)
    assert (
        "    watersmeet lab figure rjoin-2 --quick --seed 3 --out there\n"
        "    watersmeet lab page there --quick --out docs/figures.md\n"
    ) in quick
    assert "run at small sizes (`--quick`)" in quick
    full = figure_page(read_figures(folder))
    assert "run at full size" in full
    assert "--quick" not in full


def test_thinning_keeps_the_ends() -> None:
    assert thinned([1, 2, 3], COLUMNS) == [1, 2, 3]
    many = thinned(range(1000), COLUMNS)
    assert (len(many), many[0], many[-1]) == (COLUMNS, 0, 999)


@pytest.mark.parametrize(
    ("value", "words"),
    [(3.0, "3"), (0.12345, "0.1235"), (65432.1, "65432"), (True, "yes"), ([1, None], "1, none"), ("a", "a")],
)
def test_values_readable(value: object, words: str) -> None:
    assert readable(value) == words


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "holds no object"),
        ('{"figure": "x", "parameters": {}, "series": []}', "no 'claims'"),
        (
            '{"figure": "x", "parameters": {}, "series": [{"name": "a"}], "claims": []}',
            "'series' is incomplete",
        ),
    ],
)
def test_a_file_that_is_no_figure_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "odd.json").write_text(content)
    with pytest.raises(ConfigurationError, match=rf"odd\.json.*{message}"):
        read_figures(tmp_path)


def test_a_folder_without_figures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no figure"):
        read_figures(tmp_path)
    with pytest.raises(ConfigurationError, match="there is no folder"):
        read_figures(tmp_path / "gone")


def test_command_writes_the_page(folder: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    out = tmp_path / "page.md"
    result = runner.invoke(lab_commands, ["page", str(folder), "--quick", "--out", str(out)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert out.read_text() == figure_page(read_figures(folder), quick=True)
    printed = runner.invoke(lab_commands, ["page", str(folder), "--quick"])
    assert printed.stdout == out.read_text()


def test_pictures_are_copied_beside_the_page_and_shown(folder: Path, tmp_path: Path) -> None:
    runner, out = CliRunner(), tmp_path / "docs" / "page.md"
    out.parent.mkdir()
    result = runner.invoke(lab_commands, ["page", str(folder), "--pictures", "--out", str(out)])
    assert result.exit_code == 0
    assert "![rjoin-2](page/rjoin-2.svg)" in out.read_text()
    assert "lab page figures --pictures --out docs/page.md" in out.read_text()
    assert (tmp_path / "docs/page/rjoin-2.svg").read_text() == (folder / "rjoin-2.svg").read_text()
    (folder / "rjoin-2.svg").unlink()
    for options, problem in ((["--out", str(out)], "rjoin-2.svg is missing"), ([], "goes with --out")):
        refused = runner.invoke(lab_commands, ["page", str(folder), "--pictures", *options])
        assert problem in str(refused.exception)


def test_the_page_in_the_documentation_has_every_figure_of_the_overlay_lab() -> None:
    docs = ROOT / "docs"
    shown = [line[3:] for line in (docs / "figures.md").read_text().splitlines() if line.startswith("## ")]
    overlay = [name for name in figure_titles() if name.startswith(("dhtjoin-", "europar-", "rjoin-"))]
    assert len(overlay) == 20
    assert set(overlay) <= set(shown) <= set(figure_titles())
    assert all((docs / "figures" / f"{name}.svg").is_file() for name in shown)


def test_json_of_a_figure_is_all_the_page_needs(folder: Path) -> None:
    [figure] = read_figures(folder)
    assert figure == json.loads(json.dumps(RESULT.to_dict()))
