"""The comparison of routings: figures are of steady batches, from one source for every way of routing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from watersmeet.bench.engines import as_batch
from watersmeet.bench.routings import (
    SHAPES,
    _Run,
    as_table,
    check_agreement,
    shuffled_bytes,
    state_of,
    summary,
    write,
)
from watersmeet.errors import WatersmeetError


def event(kind: str, **fields: Any) -> str:
    return json.dumps({"Event": kind, **{name.replace("_", " "): value for name, value in fields.items()}})


def submitted(stage: int, batch: int | None) -> str:
    told = {} if batch is None else {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(batch)}
    return event("SparkListenerStageSubmitted", Stage_Info={"Stage ID": stage}, Properties=told)


def ended(stage: int, written: int | None) -> str:
    metrics = None if written is None else {"Shuffle Write Metrics": {"Shuffle Bytes Written": written}}
    return event("SparkListenerTaskEnd", Stage_ID=stage, Task_Metrics=metrics)


def ours(batch: int, ms: int) -> dict[str, Any]:
    metrics = {"input_a": 60, "input_b": 40, "state_rows": 10 * batch, "memory_bytes": 1000 * batch}
    return {
        "id": "q",
        "batchId": batch,
        "numInputRows": 2,  # files
        "durationMs": {"triggerExecution": ms},
        "observedMetrics": {"watersmeet": {"metrics": metrics}},
    }


def sparks_own(**custom: int) -> dict[str, Any]:
    joins = [{"numRowsTotal": 30, "memoryUsedBytes": 9999, "customMetrics": custom} for _ in range(2)]
    return {
        "numInputRows": 100,
        "durationMs": {"triggerExecution": 50},
        "observedMetrics": {"watersmeet": {"metrics": {"answers": 3}}},
        "stateOperators": joins,
    }


def test_the_shapes_are_what_they_are_called() -> None:
    shapes = {name: workload.query.graph.shape for name, workload in SHAPES.items()}
    assert shapes == {"type 1": "type 1", "chain": "type 2", "star": "type 2", "cycle": "cyclic"}
    centre, *others = SHAPES["star"].query.inputs
    classes = SHAPES["star"].query.graph.classes
    assert all(cls.of(centre.alias) for cls in classes)
    assert [[cls.of(one.alias) is not None for cls in classes].count(True) for one in others] == [1, 1, 1]


def test_shuffled_bytes_are_those_of_every_task_of_a_batch() -> None:
    log = [
        event("SparkListenerLogStart"),
        submitted(1, batch=0),
        submitted(2, batch=1),
        submitted(3, batch=None),
        ended(1, 10),
        ended(2, 5),
        ended(2, 7),
        ended(2, None),
        ended(3, 1000),
    ]
    assert shuffled_bytes(log) == {("q", 0): 10, ("q", 1): 12}


def test_figures_are_medians_of_timed_runs_and_state_is_of_the_untimed_one() -> None:
    runs = [
        _Run("chain", "shares", [ours(4, 9000), ours(5, 9000)], (7, 1), is_timed=False),
        _Run("chain", "shares", [ours(4, 100), ours(5, 300)], (7, 1), is_timed=True),
    ]
    bytes_ = shuffled_bytes(
        [submitted(1, 4), submitted(2, 5), submitted(3, 0), *map(ended, (1, 2, 3), (40, 60, 9))]
    )
    figures = summary(runs, bytes_)
    assert figures.shuffled_bytes_per_row == pytest.approx(0.5)
    assert figures.rows_per_s == pytest.approx(500)
    assert (figures.state_rows, figures.state_bytes, figures.answers) == (50, 5000, 7)


def test_sparks_own_joins_are_counted_by_what_spark_reports() -> None:
    assert as_batch(sparks_own()).rows == 100
    assert state_of(sparks_own(stateOnCurrentVersionSizeBytes=400)) == (60, 800)


def test_ways_that_differ_are_not_compared(tmp_path: Path) -> None:
    check_agreement("star", {"shares": (5, 7), "native": (5, 7)})
    with pytest.raises(WatersmeetError, match=r"star: the answers differ by routing \(shares 5, native 5\)"):
        check_agreement("star", {"shares": (5, 7), "native": (5, 8)})


def test_a_report_has_a_row_for_each_shape_and_way(tmp_path: Path) -> None:
    run = [_Run("star", "native", [ours(4, 100)], (7, 1), is_timed=timed) for timed in (False, True)]
    figures = [summary(run, shuffled_bytes([]))]
    assert as_table(figures).row_count == 1
    written = json.loads(write(figures, tmp_path, batch_rows=10, batches=4).read_text())
    assert written["figures"][0]["routing"] == "native"
    assert written["batch_rows"] == 10
