"""Figures: the registry, the files written, the chart's text, and what the smallest runs must show."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.files import write_figure
from watersmeet.lab.figures.registry import figure, figure_titles, run_figure
from watersmeet.lab.figures.rjoin import panels as rjoin_panels
from watersmeet.lab.figures.rjoin.experiment import Experiment, run_experiment
from watersmeet.lab.figures.rjoin.panels import Size
from watersmeet.lab.figures.rjoin.workload import Workload
from watersmeet.lab.figures.runners import run_here, run_in_processes
from watersmeet.lab.figures.svg_chart import HEIGHT, WIDTH, Panel, Series, draw
from watersmeet.lab.figures.text_chart import draw_text
from watersmeet.lab.simulation import zipf_shares

RJOIN = [f"rjoin-{number}" for number in range(2, 10)]
SMALL = Experiment(nodes=50, queries=60, checkpoints=(10, 40), warm_up=20)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick figures made quicker still."""
    monkeypatch.setattr(rjoin_panels, "QUICK", Size(40, 40, 100))
    monkeypatch.setattr(rjoin_panels, "SHARED_QUICK", Size(40, 20, 100))


def square(number: int) -> int:
    return number * number


def test_the_papers_figures_are_registered() -> None:
    assert set(RJOIN) <= set(figure_titles())


def test_an_unknown_figure_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigurationError, match="rjoin-2"):
        run_figure("rjoin-1")


def test_two_figures_cannot_share_a_name() -> None:
    figure_titles()
    with pytest.raises(ConfigurationError, match="two figures"):
        figure("rjoin-2", "another")(lambda quick, seed, runner: FigureResult("rjoin-2", {}, (), ()))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", RJOIN)
def test_every_rjoin_figure_runs_and_is_written(name: str, tmp_path: Path) -> None:
    result = run_figure(name, quick=True, seed=3)
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


@pytest.mark.usefixtures("tiny")
def test_a_figure_is_a_function_of_its_seed() -> None:
    first, again, other = (run_figure("rjoin-3", quick=True, seed=seed).to_dict() for seed in (1, 1, 2))
    assert first == again
    assert first["series"] != other["series"]


def test_runners_agree() -> None:
    assert run_here([3, 1, 2], square) == run_in_processes(2)([3, 1, 2], square) == [9, 1, 4]


def test_runners_tell_how_far_they_are() -> None:
    told: list[tuple[int, int]] = []
    tell = partial(_note, told)
    run_here([3, 1, 2], square, progress=tell)
    assert told == [(1, 3), (2, 3), (3, 3)]
    told.clear()
    run_in_processes(2, progress=tell)([3, 1, 2], square)
    assert told == [(1, 3), (2, 3), (3, 3)]


def _note(told: list[tuple[int, int]], done: int, total: int) -> None:
    told.append((done, total))


def test_strategies_agree_on_answers_and_rates_save_work() -> None:
    """RJoin section 8, Figure 2: worst > random > RJoin in load; the answers are the same."""
    runs = {
        strategy: run_experiment(replace(SMALL, queries=300, checkpoints=(150,), strategy=strategy))[0]
        for strategy in ("worst", "random", "ric")
    }
    assert len({run.answers for run in runs.values()}) == 1
    loads = [sum(runs[strategy].processing) for strategy in ("worst", "random", "ric")]
    assert loads[0] > loads[1] > loads[2]


def test_a_message_a_query_costs_more_where_choices_are_bad() -> None:
    """RJoin section 8, Figure 2, counted as Procedures 2 and 3 send, without any grouping."""
    runs = {
        strategy: run_experiment(replace(SMALL, queries=300, checkpoints=(150,), strategy=strategy))[0]
        for strategy in ("worst", "ric")
    }
    assert all(run.messages_alone > run.messages for run in runs.values())
    assert runs["ric"].alone["ric"] == runs["ric"].traffic["ric"], "requests for rates are grouped in both"
    alone, grouped = (
        getattr(runs["worst"], count) / getattr(runs["ric"], count)
        for count in ("messages_alone", "messages")
    )
    assert alone > grouped


def test_only_nodes_with_keys_can_take_part() -> None:
    """RJoin section 8, Figure 3: how many nodes there are to share the work."""
    experiment = replace(SMALL, nodes=400, checkpoints=(60,), workload=Workload(relations=4, values=10))
    most = rjoin_panels.nodes_with_keys(experiment)
    assert rjoin_panels.participants(run_experiment(experiment)[0]) <= most < 400
    assert rjoin_panels.grows_to([3, 5, 7, 7], 7)
    assert not rjoin_panels.grows_to([3, 5, 5, 7], 7)
    assert not rjoin_panels.grows_to([7, 7], 7)


def test_windows_cap_the_storage() -> None:
    """RJoin section 5: what has left the window is forgotten."""
    shared = Workload(value_order="shared")
    bounded, unbounded = (
        run_experiment(replace(SMALL, checkpoints=(150,), workload=replace(shared, window_ticks=ticks)))[0]
        for ticks in (10, None)
    )
    assert sum(bounded.storage) < sum(unbounded.storage)
    assert sum(bounded.processing) < sum(unbounded.processing)


def test_snapshots_add_up() -> None:
    early, late = run_experiment(SMALL)
    assert (early.tuples, late.tuples) == (10, 40)
    assert sum(early.processing) < sum(late.processing)
    assert early.messages < late.messages
    assert len(late.processing) == len(late.storage) == 50
    assert late.processing == sorted(late.processing, reverse=True)


def test_zipf_probabilities_follow_the_rank() -> None:
    shares = zipf_shares(100, 0.9)
    assert sum(shares) == pytest.approx(1)
    assert shares[0] / shares[9] == pytest.approx(10**0.9)


def test_workload_queries_are_chains_of_different_relations() -> None:
    for query in Workload(ways=6, seed=2).queries(50):
        assert len(set(query.graph.aliases)) == 6
        assert query.graph.is_connected
        for left, right in zip(query.graph.aliases, query.graph.aliases[1:], strict=False):
            assert any({left, right} <= set(cls.aliases) for cls in query.graph.classes)


def test_workload_repeats_with_its_seed() -> None:
    def drawn(seed: int) -> Any:
        workload = Workload(seed=seed)
        return list(workload.tuples(20)), [query.pretty() for query in workload.queries(5)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_relations_may_be_equally_frequent_while_values_are_skewed() -> None:
    workload = Workload(theta=0.9, relation_theta=0.0, value_order="shared")
    drawn = list(workload.tuples(2000))
    frequent = Counter(stream.name for stream, _ in drawn)
    assert max(frequent.values()) < 1.5 * min(frequent.values())
    first = Counter(values[0] for _, values in drawn)
    assert first[0] > 4 * first[9]


def test_a_chain_cannot_have_more_relations_than_there_are() -> None:
    with pytest.raises(ConfigurationError, match="2 to 10"):
        Workload(ways=11)


@pytest.mark.parametrize("kind", ["line", "bar"])
def test_a_chart_is_valid_svg_whatever_the_values(kind: Any) -> None:
    panel = partial(Panel, "a < b & c", "x", "y", kind=kind)
    awkward = [
        [],
        [Series("nothing", [], [])],
        [Series("flat", [1, 2], [0, 0])],
        [Series("one", [5], [7]), Series("infinite", [1, 2], [float("inf"), 3])],
        [Series("many", list(range(5000)), [n**2 for n in range(5000)])] if kind == "line" else [],
    ]
    panels = [panel(series, log_y=log) for series in awkward for log in (False, True)]
    root = ET.fromstring(draw("title", panels))
    assert root.tag.endswith("svg")
    assert len(draw("title", panels)) < 200_000


@pytest.mark.parametrize("log", [False, True])
def test_lines_stay_inside_their_panel_and_rise_with_the_values(log: bool) -> None:
    series = Series("s", [1, 10, 400, 1000], [3, 70, 900, 12_345])
    root = ET.fromstring(draw("t", [Panel("p", "x", "y", [series], log_x=log, log_y=log)]))
    line = root.find(".//{*}polyline")
    assert line is not None
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in points)
    assert points == sorted(points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


def test_panels_go_three_in_a_row() -> None:
    panels = [Panel(f"p{n}", "x", "y", [Series("s", [1, 2], [1, 2])]) for n in range(5)]
    root = ET.fromstring(draw("t", panels))
    places = [tuple(map(int, group.attrib["transform"][10:-1].split(","))) for group in root.findall("{*}g")]
    assert [x for x, _ in places] == [0, WIDTH, 2 * WIDTH, 0, WIDTH]
    assert places[0][1] == places[2][1] < places[3][1] - HEIGHT
    assert int(root.attrib["width"]) == 3 * WIDTH
    assert int(root.attrib["height"]) >= places[4][1] + HEIGHT


def test_bars_may_stand_over_names() -> None:
    text = draw("t", [Panel("p", "x", "y", [Series("s", ["left", "right"], [1, 2])], kind="bar")])
    assert "left" in text
    assert len(ET.fromstring(text).findall(".//{*}g/{*}rect")) == 3, "two bars and the legend's square"


def test_a_terminal_sees_longer_bars_for_larger_values() -> None:
    series = (Series("slow", [10, 20], [1, 8]), Series("fast", [10, 20, 30], [2, 4, math.inf]))
    text = draw_text([Panel("(a) cost", "tuples", "messages", series), Panel("(b)", "x", "y", ())])
    lines = text.splitlines()
    assert lines[0] == "(a) cost: messages"
    assert lines[1] == "  tuples 10  slow  █████ 1"
    assert lines[2] == "             fast  ██████████ 2"
    assert lines[3].count("█") == 40
    assert lines[5].endswith("∞")
    assert lines[-1] == "(b): y"


def test_a_logarithmic_panel_gives_each_power_of_ten_the_same_length() -> None:
    series = Series("s", ["a", "b", "c", "d", "none"], [1, 10, 100, 1000, 0])
    text = draw_text([Panel("p", "", "y", [series], kind="bar", log_y=True)])
    lengths = [line.count("█") for line in text.splitlines()[1:]]
    assert text.startswith("p: y (log scale)")
    assert lengths == [10, 20, 30, 40, 0]


def test_json_has_no_infinity() -> None:
    result = FigureResult("x", {}, (), (Claim("so", False, {"times": [float("inf"), 1.5]}),))
    assert result.to_dict()["claims"][0]["value"] == {"times": [None, 1.5]}


def test_claims_keep_their_reasons() -> None:
    result = FigureResult("x", {}, (), (Claim("so", False, 2, "because"), Claim("thus", True, 1)))
    assert result.to_dict()["claims"] == [
        {"text": "so", "holds": False, "value": 2, "why": "because"},
        {"text": "thus", "holds": True, "value": 1},
    ]
