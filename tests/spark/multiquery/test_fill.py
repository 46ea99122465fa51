"""Who is to blame when a sink is not filled; the sinks and the answers are made up, and there is no JVM."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from watersmeet.errors import DataError, TransientError, WatersmeetError
from watersmeet.query import NEVER, Connector, Pipeline, Query, Sink
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.spark.jobs.shared_job import SharedJob
from watersmeet.spark.multiquery import fill as fill_module
from watersmeet.spark.multiquery.culprits import Blame
from watersmeet.spark.multiquery.fill import Fill, Filled
from watersmeet.spark.sinks import formats
from watersmeet.spark.sinks.batch_plans import BatchPlans
from watersmeet.spark.sinks.target import Batch
from watersmeet.spark.sources.read_sources import Sources
from watersmeet.sql import bind_query, parse_pipeline


class Blobs:
    """A batch with answers of one template."""

    def persist(self) -> None: ...

    def unpersist(self) -> None: ...

    def select(self, name: str) -> Blobs:
        return self

    def collect(self) -> list[dict[str, str]]:
        return [{"source": "0"}]


@dataclass
class Rows:
    """Answers of some queries; those of a failing one cannot be evaluated."""

    failure: Exception | None

    @property
    def write(self) -> Rows:
        return self

    def format(self, name: str) -> Rows:
        return self

    def mode(self, name: str) -> Rows:
        return self

    def save(self) -> None:
        if self.failure is not None:
            raise self.failure


@dataclass
class Decoder:
    """Evaluates answers."""

    failing: dict[int, Exception] = field(default_factory=dict)

    def found(self, blobs: Blobs) -> set[str]:
        return {"0"}

    def numbers(self, names: Container[str]) -> list[int]:
        return []

    def rows(self, blobs: Blobs, found: set[str], numbers: frozenset[int], *, as_json: bool) -> Rows:
        return Rows(
            next((self.failing[number] for number in sorted(numbers) if number in self.failing), None)
        )


@dataclass
class MadeUpSink:
    """A sink that has each query's answers of a batch once, or refuses."""

    refuse: Callable[[frozenset[int]], Exception | None] = lambda numbers: None
    got: list[int] = field(default_factory=list)

    def check(self, columns: list[str]) -> None: ...

    def write(self, batch: Batch) -> None:
        due = frozenset(map(int, batch.queries)) - set(self.got)
        rows: Any = batch.answers(frozenset(map(str, due)))
        if (refusal := self.refuse(due)) is not None:
            raise refusal
        rows.save()
        self.got += sorted(due)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fill_module, "SINK_PAUSE_S", 0.0)
    monkeypatch.setattr(fill_module, "SINK_PATIENCE_S", 0.01)


def new_fill(*sinks: tuple[MadeUpSink, set[int]], failing: dict[int, Exception] | None = None) -> Fill:
    declared = Sink("out", Connector("parquet", (("answers", "json"),)))
    return Fill(
        answers=Decoder(failing or {}),  # type: ignore[arg-type]
        plans=BatchPlans(None, "nowhere"),  # type: ignore[arg-type]
        sinks=[Filled(declared, sink, frozenset(numbers)) for sink, numbers in sinks],
        writer="0123abcd",
        buckets=2,
        on_answers=None,
        tailed=tuple,
    )


def run(fill: Fill, batch: int = 7) -> None:
    fill(Blobs(), batch)  # type: ignore[arg-type]


def test_expressions_that_fail_are_found_in_all_sinks_that_are_left() -> None:
    first, last = MadeUpSink(), MadeUpSink()
    failing = {2: ValueError("no number"), 9: ValueError("zero"), 11: ValueError("late")}
    fill = new_fill((first, {1, 2, 3}), (last, set(range(8, 16))), failing=failing)
    with pytest.raises(WatersmeetError, match="no number"):
        run(fill)
    said = {number: blame.reason for number, blame in fill.blamed.items()}
    assert said == {2: "Spark failed: no number", 9: "Spark failed: zero", 11: "Spark failed: late"}
    assert not any(blame.is_sink for blame in fill.blamed.values())


def test_a_worker_that_could_not_start_for_a_sink_is_nobodys_fault_and_the_batch_is_tried_again() -> None:
    sink = MadeUpSink(lambda numbers: PySparkException("Python worker failed to connect back."))
    fill = new_fill((sink, {1, 2}))
    with pytest.raises(TransientError, match="did not start in time"):
        run(fill)
    assert (sink.got, fill.blamed) == ([], {})


def test_a_sink_that_comes_back_is_filled_and_nobody_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fill_module, "SINK_PATIENCE_S", 60.0)  # it does not stay away for long
    left = iter([DataError("restarting")] * 3)
    sink = MadeUpSink(lambda numbers: next(left, None))
    fill = new_fill((sink, {1, 2}))
    run(fill)
    assert (sink.got, fill.blamed) == ([1, 2], {})


def test_a_sink_that_does_not_come_back_is_to_blame_and_all_that_fill_it() -> None:
    fill = new_fill((MadeUpSink(lambda numbers: DataError("full")), {1, 2, 3}), (MadeUpSink(), {4}))
    with pytest.raises(DataError, match="full"):
        run(fill)
    assert fill.blamed == dict.fromkeys((1, 2, 3), Blame("full", is_sink=True))


def test_a_sink_that_refuses_one_query_takes_the_others_once() -> None:
    sink = MadeUpSink(lambda numbers: DataError("too long") if 5 in numbers else None)
    fill = new_fill((sink, set(range(1, 9))))
    with pytest.raises(DataError, match="too long"):
        run(fill)
    assert fill.blamed == {5: Blame("too long", is_sink=True)}
    again = replace(fill, silent={5: (7, NEVER)}, blamed={})
    run(again)
    assert sorted(sink.got) == [1, 2, 3, 4, 6, 7, 8]
    assert again.blamed == {}


@pytest.mark.parametrize(
    "failure", [OSError("No space left on device"), ValueError("Python worker failed to connect back")]
)
def test_no_query_is_to_blame_for_the_machine(failure: Exception) -> None:
    fill = new_fill((MadeUpSink(), {1, 2}), failing={1: failure, 2: failure})
    with pytest.raises((DataError, TransientError)):
        run(fill)
    assert fill.blamed == {}


@pytest.mark.parametrize(
    "said",
    [
        "No space left on device", "Python worker exited unexpectedly", "Java heap space",
        "watersmeet.errors.TransientError: mine", "The value 'Permission denied' cannot be cast to BIGINT",
    ],
)  # fmt: skip
def test_a_query_that_fails_with_the_machines_words_is_to_blame(said: str) -> None:
    fill = new_fill((MadeUpSink(), {1, 2, 3}), failing={2: ValueError(said)})
    with pytest.raises(WatersmeetError):
        run(fill)
    assert list(fill.blamed) == [2]


def test_what_passes_by_itself_is_nobodys_fault() -> None:
    failing = {2: ValueError("Python worker exited unexpectedly")}
    fill = new_fill((MadeUpSink(), {1, 2, 3}), failing=failing)
    asked = iter(range(4))  # the second look finds it gone

    def rows(blobs: Blobs, found: set[str], numbers: frozenset[int], *, as_json: bool) -> Rows:
        return Rows(failing[2] if next(asked) == 0 else None)

    fill.answers.rows = rows  # type: ignore[method-assign, assignment]
    with pytest.raises(TransientError):
        run(fill)
    assert fill.blamed == {}


def test_nobody_is_to_blame_for_a_batch_that_is_cut_off() -> None:
    fill = replace(
        new_fill((MadeUpSink(), {1}), failing={1: ValueError("cancelled")}), is_stopped=lambda: True
    )
    with pytest.raises(ValueError, match="cancelled"):
        run(fill)
    assert fill.blamed == {}


def test_a_query_is_silent_in_the_batches_of_its_outage_and_no_others() -> None:
    for batch, answering in ((6, [1, 2]), (7, [2]), (8, [2]), (9, [1, 2])):
        sink = MadeUpSink()
        run(replace(new_fill((sink, {1, 2})), silent={1: (7, 9)}), batch)
        assert sink.got == answering


def test_a_sink_that_does_not_open_keeps_only_its_queries_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(target: object) -> MadeUpSink:
        raise DataError("PostgreSQL does not answer")

    monkeypatch.setitem(formats.FORMATS, "down", fail)  # type: ignore[call-overload]
    monkeypatch.setitem(formats.FORMATS, "up", lambda target: MadeUpSink())  # type: ignore[call-overload]
    text = (
        "CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (format = 'json', path = 's', event_time = 'ts');\n"
        "CREATE SINK a WITH (format = 'down', answers = 'json');\n"
        "CREATE SINK b WITH (format = 'up', answers = 'json');\n"
    )
    pipeline: Pipeline = parse_pipeline(text)
    query: Query = bind_query("SELECT k FROM s", pipeline.streams)
    queries = {number: replace(query, sink=sink) for number, sink in ((1, "a"), (2, "b"), (3, "a"))}
    job = new_job(tmp_path, pipeline, queries, {3: (4, NEVER)})
    with pytest.raises(DataError, match="PostgreSQL does not answer"):
        job.start()
    assert job.blamed == {1: Blame("PostgreSQL does not answer", is_sink=True)}


def test_what_spark_calls_does_not_hold_the_job_that_holds_the_query_of_spark(tmp_path: Path) -> None:
    """Otherwise every start would stay in the JVM, with all that its batches have used."""
    job = new_job(tmp_path, Pipeline(), {}, {})
    decoder: Any = None
    fill, held = job._fill(decoder, []), weakref.ref(job)
    is_stopped = fill.is_stopped
    assert not is_stopped()
    job.stop()
    del job
    gc.collect()
    assert held() is None
    assert is_stopped()


def new_job(
    folder: Path, pipeline: Pipeline, queries: dict[int, Query], silent: dict[int, tuple[int, int]]
) -> SharedJob:
    return SharedJob(
        spark=None,  # type: ignore[arg-type]
        dataflow=SharedDataflow(levels=1, streams=("s",)),
        queries=queries,
        pipeline=pipeline,
        sources=Sources({}, {}),
        folder=str(folder),
        base=folder,
        dataflow_id="0123abcd",
        partitions=2,
        silent=silent,
    )
