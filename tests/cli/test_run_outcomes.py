"""How `watersmeet run` ends where queries fail or have ended before: messages, events and exit codes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.spark.jobs.fake_queries import FakeQuery, new_run
from watersmeet.cli.run import Run
from watersmeet.cli.run_request import Request
from watersmeet.errors import DataError, TransientError
from watersmeet.spark.jobs.pipeline_run import PipelineRun


@dataclass
class FakeSession:
    """A session whose one run is prepared."""

    run: PipelineRun

    def start(self, file: Path, **how: Any) -> PipelineRun:
        self.run.start()
        return self.run


def follow(run: PipelineRun, tmp_path: Path, *, as_json: bool = False) -> int:
    for job in run.jobs:
        job.sink = None
    session: Any = FakeSession(run)
    request = Request(file=tmp_path / "p.sql", available_now=True, flush=True, as_json=as_json)
    return Run(request, session, None, tmp_path / "log").follow()


def test_the_exit_code_says_whether_none_some_or_all_have_failed(tmp_path: Path) -> None:
    def bad(name: str) -> FakeQuery:
        return FakeQuery(name, failure=DataError("a record does not fit"))

    assert follow(new_run([FakeQuery("a"), FakeQuery("b")], []), tmp_path) == 0
    assert follow(new_run([bad("a"), FakeQuery("b")], []), tmp_path) == 3
    assert follow(new_run([FakeQuery("b")], [bad("dead-letters-x")]), tmp_path) == 3
    assert follow(new_run([bad("a"), bad("b")], []), tmp_path) == 1
    assert follow(new_run([bad("a")], []), tmp_path) == 1


def test_a_run_that_fails_is_stopped_so_that_the_next_one_does_not_take_it_for_killed(tmp_path: Path) -> None:
    log: list[str] = []
    run = new_run([FakeQuery("a", log, failure=DataError("a record does not fit")), FakeQuery("b", log)], [])
    assert follow(run, tmp_path) == 3
    assert log == ["start a", "start b", "stop a", "stop b"]


def test_a_failure_is_shown_at_once_with_the_querys_name_and_again_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = FakeQuery(
        "bad",
        batches=1,
        failure=DataError("a record does not fit"),
        setbacks=[TransientError("a busy machine")],
    )
    assert follow(new_run([bad, FakeQuery("good", batches=5)], []), tmp_path, as_json=True) == 3
    said = capsys.readouterr()
    events = [json.loads(line) for line in said.out.splitlines()]
    kinds = [(event["event"], event.get("query")) for event in events]
    at = kinds.index(("query_failed", "bad"))
    assert events[at] == {"event": "query_failed", "query": "bad", "message": "a busy machine", "again": True}
    last = [event for event in events if event["event"] == "query_failed"][-1]
    assert (last["query"], last["message"], last["again"]) == ("bad", "a record does not fit", False)
    assert ("progress", "good") in kinds[events.index(last) :], "the other went on"
    assert events[-1]["event"] == "failed"
    assert events[-1]["message"] == "query bad: a record does not fit"
    lines = said.err.splitlines()
    assert "query bad has failed and is tried again: a busy machine" in lines
    assert "query bad has failed: a record does not fit" in lines
    assert "error: query bad: a record does not fit" in lines
    assert any(line.startswith("good: ") for line in lines), "totals of the others"


def test_a_query_that_has_ended_is_passed_over_with_a_line_that_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = replace(new_run([], []), ended=("a", "b"))
    assert follow(run, tmp_path) == 0
    said = capsys.readouterr().err
    assert "a is passed over: an earlier --flush has ended its input, and it has all its answers" in said
    assert "there was nothing new to take" in said
