"""A query that fails is stopped, with its reason in the list, and the others do not notice."""

from __future__ import annotations

import json

import pytest

from tests.serve.fake_engine import FakeEngine, KilledError
from tests.serve.registry.dataflows import CHAIN, PAIR
from tests.serve.serving import new_server, one, replies, serve
from watersmeet.errors import (
    ConfigurationError,
    DataError,
    MemoryShortageError,
    TransientError,
    WatersmeetError,
)
from watersmeet.serve.registry.changes import BoundDataflow
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.listing import list_queries
from watersmeet.serve.registry.record import Outage, require_record
from watersmeet.serve.registry.requests import Drop, Resume, Submit, send
from watersmeet.serve.registry.status import read_status
from watersmeet.serve.server import Change
from watersmeet.spark.multiquery.culprits import Blame
from watersmeet.spark.session.failures import RESUME

pytestmark = pytest.mark.usefixtures("hurry")

BY_SUM = "SELECT a.k FROM s1 [RANGE 10 SECONDS] AS a, s2 [RANGE 10 SECONDS] AS b WHERE a.k + {} = b.k"


def batches_of(engine: FakeEngine, name: str) -> list[int]:
    """The batches in which a query was to answer, those that ended among them."""
    return [batch for batch, there in engine.check().items() if name in {one for one, _ in there}]


def outage(folder: RegistryFolder, name: str) -> Outage:
    return require_record(folder).failed[name]


def test_a_query_whose_answers_fail_is_stopped_from_that_batch_on(folder: RegistryFolder) -> None:
    engine = FakeEngine(is_busy=False)
    send(folder, Submit((("good", CHAIN), ("bad", PAIR.format(1)))))
    serve(folder, engine)
    before = engine.commits
    engine.blamed = {"bad": Blame(f"'x' is no number, {RESUME}")}
    told: list[tuple[str, int]] = []
    server = new_server(folder, engine)
    server.on_failure = lambda query, what: told.append((query.name, what.since))
    left = iter(range(4))
    server.serve(until=lambda: next(left, None) is None)
    assert told == [("bad", before + 1)]
    assert engine.commits > before + 1
    assert batches_of(engine, "good") == list(range(engine.commits + 1)), "the other has missed nothing"
    assert batches_of(engine, "bad") == list(range(before + 1))
    listed = {query.name: query for query in list_queries(folder).queries}
    assert (listed["bad"].failed_in, listed["bad"].failure) == (before + 1, "'x' is no number")
    assert listed["good"].failure is None
    assert f"bad has failed in batch {before + 1}, " in list_queries(folder).pretty()
    status = read_status(folder)
    assert status is not None
    assert status.failure is None, "the server has not failed"


def test_a_resumed_query_has_missed_the_batches_between_and_nothing_else(folder: RegistryFolder) -> None:
    engine = FakeEngine(blamed={"bad": Blame("its sink is full", is_sink=True)}, is_busy=False)
    send(folder, Submit((("good", CHAIN), ("bad", PAIR.format(1)))))
    serve(folder, engine)
    engine.blamed = {}
    serve(folder, engine)
    assert batches_of(engine, "bad") == [], "a later server leaves it out as well"
    request = send(folder, Resume(("bad",)))
    changes = serve(folder, engine)
    batch = replies(folder)[request].batch
    assert batch is not None
    assert changes == [Change((), (), batch, ("bad",))]
    assert batches_of(engine, "bad") == list(range(batch, engine.commits + 1))
    bad = require_record(folder).staying["bad"]
    assert bad.since == 0, "it was in the joins all the time, so it still has its tuples"
    serve(folder, engine)
    assert require_record(folder).failed == {}


def test_a_query_that_fails_again_after_it_was_resumed_is_stopped_again(folder: RegistryFolder) -> None:
    engine = FakeEngine(blamed={"bad": Blame("no number")}, is_busy=False)
    send(folder, Submit((("good", CHAIN), ("bad", PAIR.format(1)))))
    serve(folder, engine)
    first = outage(folder, "bad").since
    send(folder, Resume(("bad",)))
    serve(folder, engine)
    assert outage(folder, "bad").since > first
    assert batches_of(engine, "good") == list(range(engine.commits + 1))


def test_a_failed_query_is_replaced_or_dropped(folder: RegistryFolder) -> None:
    engine = FakeEngine(blamed={"bad": Blame("no number"), "worse": Blame("no")}, is_busy=False)
    send(folder, Submit((("good", CHAIN), ("bad", PAIR.format(1)), ("worse", PAIR.format(2)))))
    serve(folder, engine)
    engine.blamed = {}
    request = send(folder, Submit((("Bad", PAIR.format(3)), ("new", CHAIN)), replace=True))
    drop = send(folder, Drop(("worse",)))
    serve(folder, engine)
    found = replies(folder)
    assert found[request].refusal is found[drop].refusal is None
    record = require_record(folder)
    assert sorted(record.staying) == ["Bad", "good", "new"]
    assert record.failed == {}
    assert batches_of(engine, "Bad") == list(range(found[request].batch or 0, engine.commits + 1))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Resume(("good",)), "query good has not failed: there is nothing to resume"),
        (Resume(("bad", "nobody")), "there is no query nobody: did you mean good?"),
        (one("bad"), "there is a query bad already: drop it first, submit with --replace"),
    ],
)
def test_what_is_refused(folder: RegistryFolder, request_: Resume, said: str) -> None:
    engine = FakeEngine(blamed={"bad": Blame("no number")})
    send(folder, Submit((("good", CHAIN), ("bad", PAIR.format(1)))))
    serve(folder, engine)
    request = send(folder, request_)
    serve(folder, engine)
    assert (replies(folder)[request].refusal or "").startswith(said)
    assert list(require_record(folder).failed) == ["bad"]


def test_a_query_that_fails_before_the_joins_is_found_by_trial_and_leaves_them(
    folder: RegistryFolder,
) -> None:
    engine = FakeEngine(is_busy=False, failing_keys={"(s1.k + 7)"})
    queries = [(f"q{n}", BY_SUM.format(n)) for n in range(16)]
    send(folder, Submit((("good", CHAIN), *queries)))
    serve(folder, engine)
    assert list(require_record(folder).failed) == ["q7"]
    assert outage(folder, "q7").reason == "(s1.k + 7) divides by zero"
    assert engine.trials <= 12
    for name in ("good", "q6"):
        assert batches_of(engine, name) == list(range(engine.commits + 1))
    assert batches_of(engine, "q7") == []
    serve(folder, engine)
    assert list(require_record(folder).failed) == ["q7"]
    engine.failing_keys = set()
    request = send(folder, Resume(("q7",)))
    serve(folder, engine)
    batch = replies(folder)[request].batch
    assert batch is not None
    assert require_record(folder).staying["q7"].since == batch, "it is as a new one"
    assert batches_of(engine, "q7") == list(range(batch, engine.commits + 1))


@pytest.mark.parametrize("failure", [MemoryShortageError, TransientError, ConfigurationError])
def test_a_query_that_fails_with_the_machines_words_is_found(
    folder: RegistryFolder, failure: type[WatersmeetError]
) -> None:
    engine = FakeEngine(is_busy=False, failing_keys={"(s1.k + 7)"}, failure=failure)
    send(folder, Submit((("good", CHAIN), ("bad", BY_SUM.format(7)))))
    serve(folder, engine)
    assert list(require_record(folder).failed) == ["bad"]


def test_a_machine_that_was_busy_during_a_trial_is_nobodys_fault(folder: RegistryFolder) -> None:
    """Two tries fail: the one that made the server look for a culprit, and the one with all suspects."""
    engine = FakeEngine(is_busy=False, failing_keys={"(s1.k + 7)"}, failure=TransientError)
    trial = engine.trial

    def passing(current: BoundDataflow) -> WatersmeetError | None:
        failure = trial(current)
        if failure is not None:
            engine.failing_keys = set()
        return failure

    engine.trial = passing  # type: ignore[method-assign]
    send(folder, Submit((("good", CHAIN), ("innocent", BY_SUM.format(7)))))
    with pytest.raises(TransientError):
        serve(folder, engine)
    assert require_record(folder).failed == {}
    serve(folder, engine)
    assert batches_of(engine, "innocent") == list(range(engine.commits + 1))


def test_a_key_that_fails_is_not_computed_once_its_query_is_dropped(folder: RegistryFolder) -> None:
    """The stream goes on by the same attribute for another query, and a failing batch keeps nothing of it."""
    engine = FakeEngine(failing={"chain"}, is_busy=False)
    bad = PAIR.format("a.v AND a.v + 7 = b.v")
    send(folder, Submit((("chain", CHAIN), ("good", PAIR.format(1)), ("bad", bad))))
    with pytest.raises(DataError, match="chain divides by zero"):
        serve(folder, engine)
    tried = engine.trials
    engine.failing_keys = {"(s1.v + 7)"}
    send(folder, Drop(("chain", "bad")))
    serve(folder, engine)
    assert engine.trials == tried, "nothing has failed"
    assert list(require_record(folder).staying) == ["good"]


def test_a_batch_that_fails_while_it_is_stopped_for_a_change_is_done_again_to_find_the_culprit(
    folder: RegistryFolder,
) -> None:
    engine = FakeEngine(is_busy=False)
    send(folder, Submit((("good", CHAIN), ("bad", PAIR.format(1)))))
    serve(folder, engine)
    engine.is_busy, engine.cut_off = True, {"bad": Blame("'x' is no number")}
    requests: list[str] = []

    def submit_once(number: int) -> None:
        if number == 2:
            requests.append(send(folder, one("late", PAIR.format(2))))

    serve(folder, engine, rounds=10, each=submit_once)
    failed = outage(folder, "bad")
    assert failed.reason == "'x' is no number"
    assert batches_of(engine, "bad") == list(range(failed.since))
    assert batches_of(engine, "good") == list(range(engine.offsets + 1))
    batch = replies(folder)[requests[0]].batch
    assert batch is not None
    assert batches_of(engine, "late") == list(range(batch, engine.offsets + 1)) != []


def test_a_batch_that_fails_without_a_culprit_ends_the_server_as_ever(folder: RegistryFolder) -> None:
    engine = FakeEngine(failing={"good"})
    send(folder, Submit((("good", CHAIN), ("sum", BY_SUM.format(1)))))
    with pytest.raises(DataError, match="good divides by zero"):
        serve(folder, engine)
    assert require_record(folder).failed == {}


def test_a_sink_that_all_queries_fill_ends_the_server_and_nothing_is_missed(folder: RegistryFolder) -> None:
    full = Blame("the disk is full", is_sink=True)
    engine = FakeEngine(blamed={"a": full, "b": full})
    send(folder, Submit((("a", CHAIN), ("b", PAIR.format(1)))))
    with pytest.raises(DataError, match="the disk is full"):
        serve(folder, engine)
    assert require_record(folder).failed == {}
    engine.blamed = {}
    serve(folder, engine)
    assert batches_of(engine, "a") == batches_of(engine, "b") == list(range(engine.offsets + 1))


def test_what_runs_beside_the_dataflow_does_not_stop_it(folder: RegistryFolder) -> None:
    engine = FakeEngine(beside={"dead-letters-lost": DataError("Kafka does not answer")})
    told: list[str] = []
    server = new_server(folder, engine)
    server.on_side_failure = lambda name, failure: told.append(f"{name}: {failure}")
    left = iter(range(4))
    server.serve(until=lambda: next(left, None) is None)
    assert told == ["dead-letters-lost: Kafka does not answer"]
    assert engine.commits == 3
    assert "dead-letters-lost has failed: Kafka does not answer" in list_queries(folder).pretty()


@pytest.mark.parametrize("before", [True, False], ids=["before the write", "after it"])
def test_a_server_killed_around_the_writing_of_a_failure_leaves_no_gap(
    folder: RegistryFolder, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """Either the batch is done again with the query, and fails again, or the record says that it is out."""
    write = RegistryFolder.write
    engine = FakeEngine(blamed={"bad": Blame("no number")}, is_busy=False)
    send(folder, Submit((("good", CHAIN), ("bad", PAIR.format(1)))))

    def deadly(self: RegistryFolder, name: str, text: str) -> None:
        fails = name == "dataflow.json" and '"no number"' in text
        if not (fails and before):
            write(self, name, text)
        if fails:
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(RegistryFolder, "write", deadly)
        with pytest.raises(KilledError):
            serve(folder, engine)
    assert engine.commits == -1, "nothing is committed before the failure is written down"
    assert bool(require_record(folder).failed) is not before
    serve(folder, engine)
    assert outage(folder, "bad").since == 0
    assert batches_of(engine, "good") == list(range(engine.commits + 1))


def test_the_list_as_json_says_who_has_failed(folder: RegistryFolder) -> None:
    engine = FakeEngine(blamed={"bad": Blame("no number")})
    send(folder, Submit((("good", CHAIN), ("bad", PAIR.format(1)))))
    serve(folder, engine)
    listed = json.loads(list_queries(folder).to_json())["queries"]
    assert [(query["name"], query["failed_in"], query["failure"]) for query in listed] == [
        ("good", None, None),
        ("bad", 0, "no number"),
    ]
