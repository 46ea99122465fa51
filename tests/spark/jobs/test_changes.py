"""Every line of "Changing things" in docs/operations.md, in the middle of a stream, by kind of source."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.changed_pipelines import STREAMS, ChangedPipeline, Settings
from watersmeet.errors import ConfigurationError
from watersmeet.kernel import StateLimit
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics

pytestmark = pytest.mark.slow

START = Settings()
KNOWN = Statistics({"s1": StreamStatistics(1000.0), "s2": StreamStatistics(1.0), "s3": StreamStatistics(1.0)})
TAKEN: dict[str, dict[str, Any]] = {
    "hot keys off": {"hot_keys": False},
    "lateness": {"lateness_s": 4},
    "idle_after": {"idle_after": "1 hour"},
    "partitions": {"partitions": 3},
    "statistics": {"statistics": KNOWN},
    "a query before it": {"another": True},
    "a limit of memory": {"limit": StateLimit(1 << 40)},
    "source options": {"files_per_trigger": 2},
    "sink options": {"compression": "gzip"},
    "a pattern of folders": {"folders": "moved-{}", "paths": "*{}"},
    "who reads the files": {"direct": False},
}
KINDS = ("direct", "filtered", "json", "generator", "kafka")
ORDERS = (STREAMS, tuple(reversed(STREAMS)))


def test_changes_that_are_taken_lose_and_repeat_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """All of them, a few at each resume, with one stream of each kind that is files."""
    kinds = dict(zip(STREAMS, ("filtered", "direct", "json"), strict=True))
    pipeline = ChangedPipeline(spark=spark, folder=tmp_path / "p", kinds=kinds, order=ORDERS[1])
    settings, left = START, dict(TAKEN)
    pipeline.run(settings)
    for names in (
        ("a limit of memory", "lateness", "source options", "partitions"),
        ("who reads the files", "idle_after", "statistics", "hot keys off"),
        ("a pattern of folders", "sink options", "a query before it"),
    ):
        for name in names:
            settings = replace(settings, **left.pop(name))
        if "who reads the files" in names:
            settings = replace(settings, limit=None)
        pipeline.run(settings)
    assert not left
    pipeline.check()


@pytest.mark.variant
@pytest.mark.parametrize("order", ORDERS, ids=["declared", "reversed"])
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.connectors) if kind == "kafka" else kind for kind in KINDS]
)
@pytest.mark.parametrize("change", TAKEN)
def test_each_change_with_each_kind_of_source(
    change: str,
    kind: str,
    order: tuple[str, ...],
    spark: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    broker = request.getfixturevalue("broker").bootstrap if kind == "kafka" else ""
    folder = tmp_path / f"p-{list(TAKEN).index(change)}-{ORDERS.index(order)}"
    kinds = dict.fromkeys(STREAMS, kind)
    pipeline = ChangedPipeline(spark=spark, folder=folder, kinds=kinds, order=order, bootstrap=broker)
    pipeline.run(START, new=2)
    changed = replace(START, **TAKEN[change])
    pipeline.run(changed, new=2)
    pipeline.check(sinks=["out", "other"] if changed.another else ["out"])


def test_changes_that_are_refused_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = ChangedPipeline(
        spark=spark, folder=tmp_path / "p", kinds=dict.fromkeys(STREAMS, "direct"), order=STREAMS
    )
    pipeline.run(START)
    text, written = pipeline.text(START), _written(pipeline.folder)
    assert written
    moved = replace(START, paths="moved-{}")
    pipeline.file.write_text(pipeline.text(moved))
    for name in STREAMS:
        (pipeline.folder / f"moved-{name}").mkdir()
    with pytest.raises(ConfigurationError, match="Put the old path back, or write a pattern"):
        pipeline.start(moved)
    assert _written(pipeline.folder) == written
    never, unasked = r"(?s)different query.*It cannot go on with this state", r"(?s)has changed.*say --evolve"
    for old, new, refusal in (
        ("[RANGE 3 SECONDS]", "[RANGE 30 SECONDS]", unasked),
        ("AND b.k = c.k", "AND b.k = c.k AND c.v > 5", unasked),
        ("SELECT a.k,", "SELECT a.ts, a.k,", unasked),
        ("SELECT a.k,", "SELECT DISTINCT a.k,", never),
        ("b.k = c.k", "b.v = c.k", never),
        *((f"{one} [", f"{other} [", never) for one, other in itertools.permutations(STREAMS, 2)),
    ):
        assert old in text
        pipeline.file.write_text(text.replace(old, new))
        with pytest.raises(ConfigurationError, match=refusal):
            pipeline.start(START)
        assert _written(pipeline.folder) == written, new


def _written(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file of the checkpoint and the sinks, with its size and time; the lock of a run is none."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("pipeline.sql", "run.lock"):
            stat = path.stat()
            found[str(path.relative_to(folder))] = (stat.st_size, stat.st_mtime_ns)
    return found
