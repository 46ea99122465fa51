"""Benchmarks: workloads are what they say, and figures are of steady batches of engines that agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from watersmeet.bench import as_of
from watersmeet.bench.compare import Comparison, Figures, _check_agreement, _figures
from watersmeet.bench.engines import Batch, Outcome, run_duckdb
from watersmeet.bench.report import as_json, as_svg
from watersmeet.bench.skew import SkewFigures, as_table
from watersmeet.bench.skew import _figures as skew_figures
from watersmeet.bench.skew import write as write_skew
from watersmeet.bench.workloads import WORKLOADS
from watersmeet.errors import WatersmeetError

SHAPES = {"netmon3": "type 1", "star5": "type 1", "chain4": "type 2", "cycle3": "cyclic"}


@pytest.mark.parametrize("name", SHAPES)
def test_workloads_have_the_shape_they_are_named_after(name: str) -> None:
    assert WORKLOADS[name].query.graph.shape == SHAPES[name]


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_can_be_written_and_joined(name: str, tmp_path: Path) -> None:
    workload = WORKLOADS[name]
    rows = workload.write(tmp_path, batch_rows=600, batches=2)
    outcome = run_duckdb(workload, tmp_path)
    assert outcome.batches[0].rows == rows
    read = (
        duckdb.connect()
        .execute(f"SELECT count(*), min(epoch_us(ts)), max(epoch_us(ts)) FROM '{tmp_path}/s1/*.parquet'")
        .fetchall()
    )
    assert read[0][0] == rows // len(workload.keys)
    assert read[0][1] < read[0][2]


def test_netmon3_has_the_answers_it_promises(tmp_path: Path) -> None:
    rows = WORKLOADS["netmon3"].write(tmp_path, batch_rows=60_000, batches=3)
    assert 0.03 < run_duckdb(WORKLOADS["netmon3"], tmp_path).answers / rows < 0.05


def outcome(engine: str, *ms: int, answers: int = 5, digest: int = 7) -> Outcome:
    return Outcome(engine, tuple(Batch(1000, each) for each in ms), answers, digest)


def test_warm_up_batches_do_not_count() -> None:
    figures = _figures(outcome("ours", 9000, 9000, 9000, 100, 100, 300), "netmon3", 1000, 0)
    assert figures.rows_per_s == pytest.approx(6000)
    assert (figures.p50_ms, figures.p95_ms) == (100, 300)


def test_engines_that_differ_are_not_compared() -> None:
    _check_agreement("w", [outcome("ours", 1), outcome("duckdb", 1)])
    with pytest.raises(WatersmeetError, match=r"w: the engines' answers differ \(ours 5, duckdb 5\)"):
        _check_agreement("w", [outcome("ours", 1), outcome("duckdb", 1, digest=8)])


def test_a_report_has_our_speed_over_each_other_engine() -> None:
    figures = tuple(
        Figures(
            engine=engine,
            workload="netmon3",
            batch_rows=1000,
            rows_per_s=speed,
            p50_ms=1,
            p95_ms=2,
            peak_memory_bytes=0,
            state_bytes=0,
            live_rows=0,
            answers=5,
        )
        for engine, speed in (("ours", 900.0), ("cascade", 100.0))
    )
    comparison = Comparison("netmon3", 1000, 6, figures)
    assert as_json([comparison])["comparisons"][0]["ratios"] == {"cascade": 9.0}
    picture = as_svg([comparison])
    assert picture.startswith("<svg")
    assert "netmon3" in picture


def test_the_busiest_bucket_is_weighed_over_steady_batches(tmp_path: Path) -> None:
    def report(busiest: int, work: int) -> dict[str, Any]:
        metrics = {"work": work, "busiest_work": busiest, "buckets": 4, "hot_values": 1, "input_a": 50}
        return {
            "durationMs": {"triggerExecution": 100},
            "observedMetrics": {"watersmeet": {"metrics": metrics}},
        }

    run = skew_figures([report(30, 100), report(70, 100)], (7, 0))
    assert run.busiest_share == pytest.approx(2.0)
    assert (run.rows_per_s, run.work_per_row, run.hot_values) == (500, 2, 1)
    figures = [
        SkewFigures(
            skew=1.2,
            hot_keys=True,
            rows_per_s=run.rows_per_s,
            busiest_share=run.busiest_share,
            work_per_row=run.work_per_row,
            hot_values=1,
            answers=7,
        )
    ]
    written = json.loads(write_skew(figures, tmp_path, batch_rows=10, batches=4).read_text())
    assert written["figures"][0]["busiest_share"] == pytest.approx(2.0)
    assert as_table(figures).row_count == 1


def test_an_as_of_join_is_compared_with_windows_of_time_over_the_same_tuples(tmp_path: Path) -> None:
    both = as_of.workloads(keys=5000)
    assert [
        [item.window.pretty() for item in both[name].query.inputs] for name in (as_of.AS_OF, as_of.RANGE)
    ] == [
        ["[RANGE 10 S]", "[PARTITION BY k ROWS 1]"],
        ["[RANGE 10 S]", "[RANGE 5 S]"],
    ]
    figures = [
        as_of.AsOfFigures(query=name, rows_per_s=speed, live_rows=5, state_bytes=9, answers=7)
        for name, speed in ((as_of.AS_OF, 60.0), (as_of.RANGE, 80.0))
    ]
    assert as_of.share_of_range(figures) == pytest.approx(0.75)
    assert as_of.as_table(figures).row_count == 2
    written = json.loads(as_of.write(figures, tmp_path, batch_rows=10, batches=4, keys=5000).read_text())
    assert (written["share"], written["keys"]) == (0.75, 5000)
