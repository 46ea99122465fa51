"""Queries that cannot share the dataflow run beside it: each comes, fails, goes on and goes by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serve.fake_engine import FakeEngine, KilledError
from tests.serve.registry.dataflows import PAIR, new_record
from tests.serve.serving import new_server, one, replies, serve
from watersmeet.errors import DataError
from watersmeet.serve.beside import STARTING_AT_ONCE, BesideQueries
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.listing import list_queries
from watersmeet.serve.registry.record import require_record, write_record
from watersmeet.serve.registry.requests import Drop, Resume, Submit, send
from watersmeet.serve.registry.status import read_status

pytestmark = pytest.mark.usefixtures("hurry")

ROWS = "SELECT a.k, b.v FROM s1 [ROWS 5] AS a, s2 [RANGE 10 SECONDS] AS b WHERE a.k = b.k"
LEFT = "SELECT a.k, b.v FROM s1 [RANGE 9 SECONDS] AS a LEFT JOIN s2 [RANGE 9 SECONDS] AS b ON a.k = b.k"


def test_a_query_beside_comes_and_goes_while_the_dataflow_runs_on(folder: RegistryFolder) -> None:
    engine = FakeEngine()
    sent: dict[str, str] = {}

    def each(number: int) -> None:
        if number == 3:
            sent["rows"] = send(folder, one("rows", ROWS))
        if number == 8:
            sent["drop"] = send(folder, Drop(("rows",)))
        if number == 7:
            assert engine.sides[1].batches > 0

    changes = serve(folder, engine, rounds=12, each=each)
    since = replies(folder)[sent["rows"]].batch
    assert since is not None
    assert since > 0
    assert [(change.added, change.dropped, [*change.beside]) for change in changes] == [
        (("rows",), (), ["rows"]),
        ((), ("rows",), []),
    ]
    assert "[ROWS 5] counts rows" in changes[0].beside["rows"]
    assert engine.jobs == 1, "the dataflow itself was not stopped"
    assert engine.sides == {}, "what it kept is gone"
    assert require_record(folder).queries == ()


def test_it_begins_after_the_batch_that_the_dataflow_has_begun(folder: RegistryFolder) -> None:
    engine = FakeEngine()
    seen: list[int] = []

    def each(number: int) -> None:
        if number == 4:
            seen.append(engine.offsets)
            send(folder, one("rows", ROWS))

    serve(folder, engine, rounds=7, each=each)
    assert seen[0] <= engine.sides[1].begins_after < engine.offsets
    assert require_record(folder).staying["rows"].since == engine.sides[1].begins_after + 1


def test_a_change_of_the_dataflow_does_not_stop_what_runs_beside_it(folder: RegistryFolder) -> None:
    engine = FakeEngine()
    send(folder, one("rows", ROWS))

    def each(number: int) -> None:
        if number == 3:
            send(folder, Submit((("pair", PAIR.format(1)), ("left", LEFT))))

    serve(folder, engine, rounds=12, each=each)
    assert engine.jobs == 2
    assert engine.sides[1].batches == 11
    assert set(engine.sides) == {1, 3}


def test_one_that_fails_is_stopped_alone_and_goes_on_where_it_was(folder: RegistryFolder) -> None:
    engine = FakeEngine()
    send(folder, Submit((("rows", ROWS), ("left", LEFT), ("pair", PAIR.format(1)))))
    failures: list[str] = []
    server = new_server(folder, engine)
    server.on_failure = lambda query, outage: failures.append(f"{query.name} {outage.since} {outage.reason}")
    rounds = iter(range(14))

    def until() -> bool:
        number = next(rounds, None)
        if number == 3:
            engine.failing_beside = {"rows"}
        if number == 8:
            assert require_record(folder).failed.keys() == {"rows"}
            assert "rows has failed in batch 2 of its own" in list_queries(folder).pretty()
            engine.failing_beside = set()
            send(folder, Resume(("rows",)))
        return number is None

    server.serve(until)
    assert failures == ["rows 2 rows divides by zero"]
    assert require_record(folder).failed == {}
    assert 2 < engine.sides[1].batches < engine.sides[2].batches, (
        "its own batches go on from the one that failed"
    )
    assert engine.jobs == 1


def test_nothing_is_to_blame_where_spark_itself_has_ended(folder: RegistryFolder) -> None:
    engine = FakeEngine(failing_beside={"rows"}, is_dead=True)
    send(folder, one("rows", ROWS))
    with pytest.raises(DataError, match="Spark's process has ended"):
        serve(folder, engine)
    assert require_record(folder).failed == {}


def test_it_may_replace_a_shared_query_and_be_replaced_by_one(folder: RegistryFolder) -> None:
    engine = FakeEngine()
    serve(folder, engine)
    for sql, is_beside in ((PAIR.format(1), False), (ROWS, True), (PAIR.format(2), False)):
        send(folder, Submit((("q", sql),), replace=True))
        serve(folder, engine, rounds=8)
        (query,) = require_record(folder).staying.values()
        assert (query.beside is not None) == is_beside
        assert len(engine.sides) == is_beside


def test_everything_is_read_once_what_is_beside_has_ended_too(folder: RegistryFolder) -> None:
    engine = FakeEngine(is_finite=True, ends_after=9)
    send(folder, one("rows", ROWS))
    server = new_server(folder, engine)

    def until() -> bool:
        if engine.jobs and server._job is not None:
            server._job.runs = False  # type: ignore[attr-defined]
        return False

    server.serve(until)
    assert engine.sides[1].batches == 9


def test_a_list_says_what_runs_beside_and_how_far_it_is(folder: RegistryFolder) -> None:
    engine = FakeEngine()
    send(folder, Submit((("rows", ROWS), ("pair", PAIR.format(1)))))
    serve(folder, engine, rounds=6)
    write_status_of_running(folder, engine)
    listing = list_queries(folder)
    rows, pair = listing.queries
    assert rows.beside is not None
    assert rows.progress is not None
    assert (pair.beside, pair.progress) == (None, None)
    text = listing.pretty()
    assert f"rows runs beside the dataflow, batch {rows.progress['batch_id']} of its own: s1 AS a" in text


def write_status_of_running(folder: RegistryFolder, engine: FakeEngine) -> None:
    """Leaves the status that a server writes while it runs."""
    server = new_server(folder, engine)
    left = iter(range(3))

    def until() -> bool:
        server._reported_at = float("-inf")
        return next(left, None) is None

    stopped = BesideQueries.stop
    try:
        BesideQueries.stop = lambda self: None  # type: ignore[method-assign]
        server.serve(until)
    finally:
        BesideQueries.stop = stopped  # type: ignore[method-assign]
    assert read_status(folder) is not None


def test_many_are_started_a_few_at_a_time(folder: RegistryFolder) -> None:
    class Slow(FakeEngine):
        started = 0

        def side_job(self, registration, query):  # type: ignore[no-untyped-def]
            job = super().side_job(registration, query)
            start = job.start

            def begin() -> None:
                self.started += 1
                start()

            job.start = begin  # type: ignore[method-assign]
            job.is_settled = lambda: False  # type: ignore[method-assign]
            return job

    engine = Slow()
    send(folder, Submit(tuple((f"rows{n}", ROWS) for n in range(9))))
    serve(folder, engine)
    assert engine.started == STARTING_AT_ONCE


@pytest.mark.parametrize("before", [True, False], ids=["before the write", "after it"])
def test_killed_at_any_write_it_keeps_the_checkpoints_of_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    acts = {name: getattr(RegistryFolder, name) for name in ("write", "remove")}
    countdown = 0

    def deadly(name: str) -> Callable[..., None]:
        def act(self: RegistryFolder, file: str, *rest: str) -> None:
            nonlocal countdown
            is_client = file.startswith("requests/") and name == "write"
            countdown -= not is_client
            dies = countdown == 0 and not is_client
            if not (dies and before):
                acts[name](self, file, *rest)
            if dies:
                raise KilledError

        return act

    for step in range(1, 40):
        folder = RegistryFolder(tmp_path / str(step))
        write_record(folder, new_record(folder.path))
        engine, steps = (
            FakeEngine(),
            [one("rows", ROWS), one("left", LEFT), Drop(("rows",)), one("rows", ROWS)],
        )
        kills = 0
        with monkeypatch.context() as patched:
            for name in acts:
                patched.setattr(RegistryFolder, name, deadly(name))
            countdown = step
            while steps or folder.names("requests", ".json"):
                if steps and not folder.names("requests", ".json"):
                    send(folder, steps.pop(0))
                try:
                    serve(folder, engine, rounds=3)
                except KilledError:
                    kills += 1
        serve(folder, engine, rounds=2)
        assert set(engine.sides) == {2, 3}
        assert [query.name for query in require_record(folder).queries] == ["left", "rows"]
        if not kills:
            assert step > 12
            return
    pytest.fail("there is no end to the writes")
