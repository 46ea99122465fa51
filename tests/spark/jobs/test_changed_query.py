"""A query that is changed between two runs keeps its state: each answer comes once, from one of the two."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.paths import ROOT
from tests.spark.pipelines import JOIN, Case, arrive, pipeline_text, random_batches, write_case
from tests.spark.processes import jvm, kill
from tests.spark.run_pipeline import Request
from watersmeet.errors import ConfigurationError
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_run import PipelineRun
from watersmeet.sql import parse_pipeline

pytestmark = pytest.mark.slow

OLD = f"SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc, answer_time {JOIN} AND a.v <= c.v AND b.v > 2"
FREE = OLD.replace("a.k, a.v AS va", "a.v * 2 AS va, b.k AS k").replace("a.v <= c.v", "a.v + b.v > c.v")
ONCE = RunOptions(available_now=True)
EVOLVE = RunOptions(available_now=True, evolve=True)
ANYWAY = RunOptions(available_now=True, evolve=True, accept_gap=True)

Row = tuple[tuple[str, Any], ...]  # values by column, in the order of names
Bag = Counter[Hashable]


@dataclass(frozen=True)
class Changing:
    """A case whose query is changed, and the queries so far with the number of batches each has had."""

    spark: SparkSession
    case: Case

    def run(self, select: str, upto: int, options: RunOptions = ONCE) -> PipelineRun:
        """The file with this query, over the batches up to a number."""
        there = len(list((self.case.folder / "s1").glob("[0-9]*.parquet")))
        arrive(self.case, range(there, upto))
        self.case.file.write_text(pipeline_text(select))
        return Session(self.spark).run(self.case.file, checkpoint=self.case.checkpoint, options=options)

    def found(self) -> Bag:
        path = f"file:{self.case.folder / 'out'}"
        rows = self.spark.read.option("mergeSchema", "true").parquet(path).collect()
        return Counter(oracle.bag(_named(row.asDict()) for row in rows))

    def due(self, select: str, first: int, end: int) -> Bag:
        """The answers of a query that have a tuple of these batches, and none of later ones."""
        return self._answers(select, self.case.batches[:end]) - self._answers(
            select, self.case.batches[:first]
        )

    def _answers(self, select: str, batches: Sequence[MicroBatch]) -> Bag:
        query = parse_pipeline(pipeline_text(select)).queries[0]
        names = [output.name for output in query.select]
        rows = oracle.run(query, batches).rows
        return Counter(oracle.bag(_named(dict(zip(names, row, strict=True))) for row in rows))


def _named(values: dict[str, Any]) -> Row:
    return tuple(sorted((name, value) for name, value in values.items() if value is not None))


def _case(spark: SparkSession, folder: Path, *, count: int = 4, seed: int = 30) -> Changing:
    return Changing(spark, write_case(folder, OLD, random_batches(seed=seed, count=count), arrived=0))


def test_another_select_list_goes_on_with_the_kept_state(spark: SparkSession, tmp_path: Path) -> None:
    changing = _case(spark, tmp_path, count=3)
    assert not changing.run(OLD, 2).changes
    run = changing.run(FREE, 3)
    [said] = run.changes["out"]
    assert said.startswith("what changed:\n  SELECT: a.k AS k, a.v AS va")
    assert said.endswith("from batch 2 on; the kept state serves it")
    old, new = changing.due(OLD, 0, 2), changing.due(FREE, 2, 3)
    assert old
    assert new
    assert changing.found() == old + new
    with pytest.raises(ConfigurationError, match=r"\(the window of b\), say --evolve\.\n"):
        changing.run(FREE.replace("s2 [RANGE 3", "s2 [RANGE 2"), 3)


WIDER = OLD.replace("s2 [RANGE 3", "s2 [RANGE 30")
KINDS: dict[str, tuple[str, RunOptions]] = {
    "fewer columns": (OLD.replace("b.v AS vb, ", ""), ONCE),
    "another name": (OLD.replace("AS vb", "AS more"), ONCE),
    "a stricter filter": (OLD.replace("b.v > 2", "b.v > 4"), EVOLVE),
    "a filter more": (f"{OLD} AND a.v % 2 = 0", EVOLVE),
    "a looser filter": (OLD.replace("b.v > 2", "b.v > 0"), ANYWAY),
    "a shorter window": (OLD.replace("s1 [RANGE 4", "s1 [RANGE 2"), EVOLVE),
    "a longer window": (WIDER, ANYWAY),
    "another kind of window": (OLD.replace("s3 [TUMBLE 6", "s3 [TUMBLE 3"), EVOLVE),
    "a column more": (OLD.replace("answer_time", "b.ts AS at, answer_time"), ANYWAY),
}


@pytest.mark.variant
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_change(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    select, options = KINDS[kind]
    changing = _case(spark, tmp_path)
    changing.run(OLD, 2)
    written = _written(changing.case.folder)
    for less in (ONCE, EVOLVE):
        if options == less:
            break
        flag = "--accept-gap" if less == EVOLVE else "--evolve"
        with pytest.raises(ConfigurationError, match=flag):
            changing.run(select, 2, less)
        assert _written(changing.case.folder) == written
    assert changing.run(select, 3, options).changes
    assert not changing.run(select, 4).changes
    old, new, found = changing.due(OLD, 0, 2), changing.due(select, 2, 4), changing.found()
    assert old
    assert new
    if options != ANYWAY:
        assert found == old + new
        return
    assert old <= found < old + new  # all but some of what was said to be missing
    assert sum((found - old).values()) > 0


@pytest.mark.variant
@pytest.mark.parametrize("in_sink", [True, False], ids=["in the sink", "not in the sink"])
@pytest.mark.parametrize("kind", ["fewer columns", "a stricter filter", "a shorter window"])
def test_a_batch_under_way_is_of_one_query(
    kind: str, in_sink: bool, spark: SparkSession, tmp_path: Path
) -> None:
    """It was killed after its tasks were done; its answers may have come to the sink."""
    select, options = KINDS[kind]
    changing = _case(spark, tmp_path)
    changing.run(OLD, 3)
    folder = changing.case.folder
    (changing.case.checkpoint / "out" / "spark" / "commits" / "2").unlink()
    (changing.case.checkpoint / "out" / "spark" / "commits" / ".2.crc").unlink(missing_ok=True)
    if not in_sink:
        for path in [
            *(folder / "out").glob("*-2-*.parquet"),
            *(folder / "out" / "_watersmeet").glob("*/batch-2-*"),
        ]:
            path.unlink()
    changing.run(select, 4, options)
    first = 3 if in_sink else 2
    old, new = changing.due(OLD, 0, first), changing.due(select, first, 4)
    assert old
    assert new
    assert changing.found() == old + new


@pytest.mark.variant
def test_a_change_of_which_nothing_has_come_can_be_changed_back(spark: SparkSession, tmp_path: Path) -> None:
    """The record holds both queries until a batch of the new one is completed."""
    changing = _case(spark, tmp_path)
    changing.run(OLD, 2)
    changing.run(KINDS["fewer columns"][0], 2)  # there is nothing to take
    assert not changing.run(OLD, 2).changes
    assert changing.run(FREE, 3).changes
    assert changing.run(KINDS["a stricter filter"][0], 4, EVOLVE).changes
    due = [
        changing.due(OLD, 0, 2),
        changing.due(FREE, 2, 3),
        changing.due(KINDS["a stricter filter"][0], 3, 4),
    ]
    assert all(due)
    assert changing.found() == sum(due, Counter())


@pytest.mark.variant
def test_a_killed_change_over_leaves_one_of_the_two(
    spark: SparkSession, tmp_path: Path, long_mode: bool
) -> None:
    """Killed at any moment after the file was changed; the next run goes on with the changed query."""
    rng = random.Random(31)
    for number in range(6 if long_mode else 2):
        changing = _case(spark, tmp_path / str(number), seed=40 + number)
        changing.run(OLD, 2)
        arrive(changing.case, [2])
        select = KINDS["a shorter window"][0]
        changing.case.file.write_text(pipeline_text(select))
        case = changing.case
        request = Request(
            str(case.file), str(case.checkpoint), str(tmp_path / "spark.log"), flush=False, evolve=True
        )
        process = subprocess.Popen(
            request.command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n", process.communicate()[1]
            time.sleep(rng.uniform(0, 8))
            for victim in (process.pid, jvm(process.pid)):
                if victim is not None:
                    kill(victim)
        finally:
            process.kill()
            process.communicate(timeout=120)
        changing.run(select, 4, EVOLVE)
        old, new = changing.due(OLD, 0, 2), changing.due(select, 2, 4)
        assert old
        assert new
        assert changing.found() == old + new


def _written(folder: Path) -> dict[str, int]:
    """Every file of the checkpoint and the sink, with its time; the lock of a run is none."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("pipeline.sql", "run.lock")
    }
