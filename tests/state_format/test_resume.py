"""A checkpoint of every version that there was is resumed without loss, or refused in clear words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import Case, arrive
from tests.state_format.checkpoint_case import CHECKPOINTS, FIRST_HALF, restore, versions
from watersmeet.errors import ConfigurationError, DataError
from watersmeet.oracle import oracle
from watersmeet.plan.physical import PhysicalPlan, plan_physical
from watersmeet.plan.state_format import STATE_FORMAT
from watersmeet.session import Session
from watersmeet.spark.jobs.checkpoint import Checkpoint
from watersmeet.spark.jobs.job import RunOptions

TO_THE_END = RunOptions(available_now=True, flush=True)
QUERY_FOLDER = "out"


def test_this_version_has_a_checkpoint_and_it_is_small() -> None:
    assert STATE_FORMAT in versions()
    for version in versions():
        files = [path for path in (CHECKPOINTS / str(version)).rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < 300_000


def _found(case: Case) -> list[tuple[Any, ...]]:
    """What the sink was given since; what was written before the checkpoint was stored is not in it."""
    tables = [pq.read_table(path) for path in sorted((case.folder / "out").glob("*.parquet"))]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


@pytest.mark.parametrize("version", versions())
def test_a_checkpoint_is_resumed_or_refused(spark: SparkSession, tmp_path: Path, version: int) -> None:
    case = restore(version, tmp_path / "elsewhere")
    arrive(case, range(FIRST_HALF, len(case.batches)))
    if version != STATE_FORMAT:
        with pytest.raises(ConfigurationError, match=f"written in state format {version}, by an older"):
            Session(spark).run(case.file, checkpoint=case.checkpoint, options=TO_THE_END)
        return
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=TO_THE_END)
    before = oracle.bag(oracle.run(case.query, case.batches[:FIRST_HALF]).rows)
    remaining = oracle.bag(oracle.run(case.query, case.batches, flush=True).rows)
    remaining.subtract(before)
    assert oracle.bag(_found(case)) == +remaining
    without_state = oracle.bag(oracle.run(case.query, case.batches[FIRST_HALF:], flush=True).rows)
    assert +remaining != without_state, "it proves nothing unless the state is needed"


@pytest.fixture
def plan_on(tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], Any]], PhysicalPlan]:
    """Plans the stored query on its checkpoint, once the record of it has been changed."""

    def plan(change: Callable[[dict[str, Any]], Any]) -> PhysicalPlan:
        case = restore(STATE_FORMAT, tmp_path / "elsewhere")
        folder = case.checkpoint / QUERY_FOLDER
        record = json.loads((folder / "watersmeet.json").read_text())
        (folder / "watersmeet.json").write_text(json.dumps(change(record)))
        on_disk = Checkpoint(None, str(folder))  # type: ignore[arg-type] # a folder on this disk needs none
        return on_disk.plan(plan_physical(case.query, 7))

    return plan


def test_a_record_goes_on_with_the_partitions_it_was_started_with(plan_on: Any) -> None:
    assert plan_on(lambda record: record).partitions == 2


def test_a_record_of_an_older_format_is_refused(plan_on: Any) -> None:
    """Until format 3 it held lines of text."""
    lines = "state format 3\nshuffle partitions 2\nfrom s1 AS a [RANGE 4 S]"
    old = {"fingerprint": lines, "partitions": 2, "shares": [2], "ended": False, "routing": "shares"}
    with pytest.raises(ConfigurationError) as refusal:
        plan_on(lambda _: {**old, "pipeline": None})
    assert str(refusal.value) == (
        "the checkpoint was written in state format 3, by an older version of Watersmeet; this one reads "
        f"state format {STATE_FORMAT}. Resume it with the version that wrote it, or start anew with another "
        "checkpoint"
    )


@pytest.mark.parametrize(("version", "whose"), [(3, "an older"), (99, "a newer")])
def test_a_record_of_another_format_is_refused(plan_on: Any, version: int, whose: str) -> None:
    words = f"written in state format {version}, by {whose} version .*reads state format {STATE_FORMAT}\\."
    with pytest.raises(ConfigurationError, match=words):
        plan_on(lambda record: {**record, "identity": {**record["identity"], "format": version}})


def test_a_checkpoint_that_was_moved_or_copied_is_refused(plan_on: Any, tmp_path: Path) -> None:
    """Spark looks for state under the old path; and a sink tells batches apart by the checkpoint."""
    here = tmp_path / "elsewhere" / "checkpoint" / QUERY_FOLDER
    (tmp_path / "link").symlink_to(here)
    for folder in (here, tmp_path / "link", f"file:{here}", "hdfs://host/checkpoint"):
        plan_on(lambda record, folder=folder: {**record, "folder": str(folder)})
    kept = json.loads((here / "watersmeet.json").read_text())
    assert kept["folder"] == str(here), "later runs know it"
    for made_in in (tmp_path / "gone", tmp_path):
        with pytest.raises(
            ConfigurationError, match=rf"{here} was made in {made_in}, and Spark keeps absolute"
        ):
            plan_on(lambda record, made_in=made_in: {**record, "folder": str(made_in)})
        assert plan_on(lambda record, made_in=made_in: {**record, "folder": str(made_in), "ended": True})


def _without_joins(record: dict[str, Any]) -> dict[str, Any]:
    del record["identity"]["state"]["classes"]
    return record


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: {**record, "identity": {}},
        lambda record: {**record, "identity": "state format 4"},
        lambda record: {**record, "identity": {**record["identity"], "format": "4"}},
        lambda record: {"fingerprint": "some text", "ended": False},
        lambda record: {"identity": record["identity"]},
        lambda record: {**record, "pipeline": {"levels": 2}},
        lambda record: [],
        _without_joins,
    ],
)
def test_a_record_that_is_not_whole_is_said_to_be_damaged(plan_on: Any, damage: Any) -> None:
    with pytest.raises(DataError, match=r"is damaged: watersmeet\.json cannot be read"):
        plan_on(damage)


def test_where_no_batch_has_run_a_record_of_any_format_is_written_anew(tmp_path: Path) -> None:
    case = restore(STATE_FORMAT, tmp_path)
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "watersmeet.json").write_text('{"fingerprint": "state format 3\\nshuffle partitions 2"}')
    plan = plan_physical(case.query, 7)
    assert Checkpoint(None, str(folder)).plan(plan) == plan  # type: ignore[arg-type]
    assert json.loads((folder / "watersmeet.json").read_text())["identity"] == plan.identity.to_json()
