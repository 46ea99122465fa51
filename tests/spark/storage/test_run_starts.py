"""When the runs of a query began, and what that says of its batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import Punctuation
from watersmeet.query import BEGINNING, Stream
from watersmeet.spark.exchange.messages import UNKNOWN
from watersmeet.spark.stages.punctuation import punctuate
from watersmeet.spark.storage.run_starts import KEPT, RUNS, begin_run

NO_SPARK = cast(SparkSession, None)  # a folder on this machine's disk needs none
QUIET = [Stream("s", (), "ts", idle_after_us=1)]


def test_each_run_finds_the_starts_of_those_before_it(tmp_path: Path) -> None:
    first = begin_run(NO_SPARK, QUIET, str(tmp_path))
    second = begin_run(NO_SPARK, QUIET, str(tmp_path))
    assert second[:-1] == first
    assert second[-1] >= first[-1]
    assert json.loads((tmp_path / RUNS).read_text()) == list(second)


def test_only_the_latest_are_kept(tmp_path: Path) -> None:
    (tmp_path / RUNS).write_text(json.dumps(list(range(KEPT))))
    found = begin_run(NO_SPARK, QUIET, str(tmp_path))
    assert (len(found), found[0]) == (KEPT, 1)


def test_nothing_is_noted_where_no_stream_can_fall_idle(tmp_path: Path) -> None:
    assert begin_run(NO_SPARK, [Stream("s", (), "ts")], str(tmp_path)) == ()
    assert not (tmp_path / RUNS).exists()


def test_without_a_folder_the_present_run_is_known() -> None:
    assert len(begin_run(NO_SPARK, QUIET, None)) == 1


def test_a_damaged_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / RUNS).write_text('{"half')
    assert len(begin_run(NO_SPARK, QUIET, str(tmp_path))) == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"the checkpoint \S+/file/folder cannot be written"):
        begin_run(NO_SPARK, QUIET, str(tmp_path / "file" / "folder"))


def test_a_batch_done_again_by_a_later_run_is_judged_as_it_was() -> None:
    """The first attempt knows two starts; the runs that repeat it know more."""
    report = [("s", 5, 1000)]
    judged = punctuate(report, (0, 900), is_end=False)
    assert judged == Punctuation({"s": 5}, 1000, False, frozenset("s"), 900)
    assert punctuate(report, (0, 900, 1001, 5000), is_end=False) == judged


def test_of_a_batch_older_than_all_known_runs_no_time_counts() -> None:
    assert punctuate([("s", 5, 1000)], (2000,), is_end=False).began_us == 1000
    assert punctuate([("s", 5, 1000)], (), is_end=False).began_us == BEGINNING


def test_a_stream_without_an_event_time_to_go_by_is_heard_all_the_same() -> None:
    judged = punctuate([("s", UNKNOWN, UNKNOWN)], (), is_end=True)
    assert (judged.max_ts, judged.now_us, judged.heard, judged.is_end) == ({}, None, frozenset("s"), True)
