"""A server, killed wherever it writes: requests are handled once, and batches keep their queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tests.serve.fake_engine import FakeEngine, KilledError
from tests.serve.registry.dataflows import CHAIN, PAIR, new_record
from tests.serve.serving import new_server, one, replies, serve
from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import NEVER
from watersmeet.serve.registry import folder as folder_module
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import require_record, write_record
from watersmeet.serve.registry.requests import REPLIES, REQUESTS, Drop, Reply, Submit, await_reply, send
from watersmeet.serve.registry.status import read_status
from watersmeet.serve.server import Change

pytestmark = pytest.mark.usefixtures("hurry")


def test_a_query_is_there_from_the_batch_its_reply_names(folder: RegistryFolder) -> None:
    engine = FakeEngine()
    serve(folder, engine)
    request = send(folder, one("a"))
    changes = serve(folder, engine)
    batch = replies(folder)[request].batch
    assert batch is not None
    assert changes == [Change(("a",), (), batch)]
    drop = send(folder, Drop(("a",)))
    serve(folder, engine)
    until = replies(folder)[drop].batch
    assert until is not None
    assert until > batch
    for number, queries in engine.check().items():
        assert {name for name, _ in queries} == ({"a"} if batch <= number < until else set())
    assert require_record(folder).staying == {}
    assert folder.names(REQUESTS, ".json") == []


def test_requests_that_come_while_it_runs(folder: RegistryFolder) -> None:
    engine = FakeEngine()
    server = new_server(folder, engine)
    sent: dict[str, str] = {}

    def come() -> Iterator[bool]:
        yield False
        sent["a"] = send(folder, one("a"))
        sent["b"] = send(folder, one("b", PAIR.format(1)))
        yield False
        sent["bad"] = send(folder, one("a"))
        sent["c"] = send(folder, one("c", PAIR.format(2)))
        yield False
        sent["drop"] = send(folder, Drop(("b", "c")))
        yield False
        yield False
        yield True

    steps = come()
    server.serve(until=lambda: next(steps))
    found = replies(folder)
    assert found[sent["a"]] == found[sent["b"]]
    assert found[sent["bad"]].refusal is not None
    assert "there is a query a already" in found[sent["bad"]].refusal
    of_drop = found[sent["drop"]].batch
    of_c = found[sent["c"]].batch
    assert of_c is not None
    assert of_drop is not None
    batches = engine.check()
    assert {name for name, _ in batches[of_c]} == {"a", "b", "c"}
    assert {name for name, _ in batches[of_drop]} == {"a"}
    status = read_status(folder)
    assert status is not None
    assert status.progress is not None
    assert status.progress["batch_id"] == engine.commits


REQUESTS_OF_A_LIFE: list[Submit | Drop] = [
    Submit((("a", CHAIN), ("b", PAIR.format(1)))),
    one("c", PAIR.format(2)),
    one("a", PAIR.format(9)),  # the name is taken
    Drop(("b",)),
    one("b", CHAIN),
    Drop(("nobody",)),
    Drop(("c", "a")),
]


@dataclass
class Life:
    """All requests, two at a time while it is served, by servers that are killed at a write."""

    folder: RegistryFolder
    engine: FakeEngine
    ids: list[str] = field(default_factory=list)
    kills: int = 0
    rounds: int = 0

    def live(self) -> None:
        while True:
            try:
                new_server(self.folder, self.engine).serve(until=self.is_over)
                return
            except KilledError:
                self.kills += 1

    def is_over(self) -> bool:
        """Called by the server in every round."""
        self.rounds += 1
        if self.rounds % 3 == 0:
            following = REQUESTS_OF_A_LIFE[len(self.ids) : len(self.ids) + 2]
            self.ids += [send(self.folder, request) for request in following]
        all_sent = len(self.ids) == len(REQUESTS_OF_A_LIFE)
        return all_sent and self.rounds % 3 == 2 and not self.folder.names(REQUESTS, ".json")

    def check(self) -> None:
        found = replies(self.folder)
        assert sorted(found) == sorted(self.ids), "each request has one reply"
        refused = [found[request].refusal is not None for request in self.ids]
        assert refused == [False, False, True, False, False, True, False]
        record = require_record(self.folder)
        assert [(q.name, q.number) for q in record.staying.values()] == [("b", 4)]
        assert record.next_number == 5
        batches = self.engine.check()
        asked = {number: found[self.ids[place]].batch for number, place in _BEGINS.items()}
        ended = {number: found[self.ids[place]].batch for number, place in _ENDS.items()}
        for batch, queries in batches.items():
            expected = {n for n in asked if asked[n] <= batch < ended.get(n, NEVER)}
            assert {number for _, number in queries} == expected


_BEGINS = {1: 0, 2: 0, 3: 1, 4: 4}  # by which request a query comes, and goes
_ENDS = {2: 3, 1: 6, 3: 6}


@pytest.mark.parametrize("kills", [1, 3])
@pytest.mark.parametrize("before", [True, False], ids=["before the write", "after it"])
def test_killed_at_any_write_it_handles_each_request_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool, kills: int, long_mode: bool
) -> None:
    acts = {name: getattr(RegistryFolder, name) for name in ("write", "remove")}
    countdown = 0
    life: Life

    def deadly(name: str) -> Callable[..., None]:
        def act(self: RegistryFolder, file: str, *rest: str) -> None:
            nonlocal countdown
            is_client = file.startswith(f"{REQUESTS}/") and name == "write"
            countdown -= not is_client
            dies = countdown == 0 and not is_client
            if dies and life.kills + 1 < kills:
                countdown = step
            if not (dies and before):
                acts[name](self, file, *rest)
            if dies:
                raise KilledError

        return act

    # The disk after one write is the disk before the next: every write once, the rest now and then.
    for step in range(1, 60, 1 if long_mode or (before and kills == 1) else 4):
        folder = RegistryFolder(tmp_path / str(step))
        write_record(folder, new_record(folder.path))
        life = Life(folder, FakeEngine(is_busy=step % 2 == 0))
        with monkeypatch.context() as patched:
            for name in acts:
                patched.setattr(RegistryFolder, name, deadly(name))
            countdown = step
            life.live()
        life.check()
        if not life.kills:
            assert step > 20
            return
    pytest.fail("there is no end to the writes")


def test_a_stop_that_cuts_a_batch_off_leaves_it_its_queries(folder: RegistryFolder) -> None:
    engine = FakeEngine(is_busy=True)
    serve(folder, engine)
    assert engine.offsets == engine.commits + 1
    request = send(folder, one("a"))
    serve(folder, engine)
    batch = replies(folder)[request].batch
    assert batch is not None
    assert engine.done.count((batch - 1, frozenset())) == 2
    engine.check()


def test_a_query_that_made_the_dataflow_fail_can_be_dropped_by_the_next_server(
    folder: RegistryFolder,
) -> None:
    engine = FakeEngine(failing={"bad"})
    send(folder, Submit((("good", CHAIN), ("bad", PAIR.format(1)))))
    with pytest.raises(DataError, match="bad divides by zero"):
        serve(folder, engine)
    with pytest.raises(DataError, match="bad divides by zero"):
        serve(folder, engine)
    status = read_status(folder)
    assert status is not None
    assert status.failure == "bad divides by zero"
    send(folder, Drop(("bad",)))
    serve(folder, engine)
    assert list(require_record(folder).staying) == ["good"]
    status = read_status(folder)
    assert status is not None
    assert status.failure is None


def test_what_spark_itself_raises_is_in_the_status_too(
    folder: RegistryFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise PySparkException("No space left on device")

    engine = FakeEngine()
    monkeypatch.setattr(engine, "job", full)
    with pytest.raises(PySparkException):
        serve(folder, engine)
    status = read_status(folder)
    assert status is not None
    assert (status.failure or "").startswith("the disk is full")


def test_a_request_that_cannot_be_read_is_refused(folder: RegistryFolder) -> None:
    for name, text in (("1", "{"), ("2", '{"do": "fly"}'), ("3", "[1]"), ("4", '{"do": "submit"}')):
        folder.write(f"{REQUESTS}/{name}.json", text)
    serve(folder, FakeEngine())
    assert {name: reply.refusal for name, reply in replies(folder).items()} == dict.fromkeys(
        "1234", "the request cannot be read: send it again"
    )


def test_one_server_at_a_time(folder: RegistryFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_LOCK_PATIENCE_S", 0.05)
    assert not folder.is_served()
    with folder.serving():
        assert folder.is_served()
        with pytest.raises(ConfigurationError, match="is served already"), folder.serving():
            pass
        assert folder.is_served()
    assert not folder.is_served()
    with folder.serving():
        pass


def test_a_client_reads_its_reply_and_leaves_nothing_behind(folder: RegistryFolder) -> None:
    request = send(folder, one("a"))
    with pytest.raises(ConfigurationError, match=r"no server runs on .* The request waits there"):
        await_reply(folder, request)
    serve(folder, FakeEngine())
    assert await_reply(folder, request) == Reply(batch=0)
    assert folder.names(REQUESTS, ".json") == folder.names(REPLIES, ".json") == []


def test_many_submits_are_one_change(folder: RegistryFolder) -> None:
    for n in range(100):
        send(folder, one(f"q{n}", PAIR.format(n)))
    engine = FakeEngine()
    changes = serve(folder, engine)
    assert [len(change.added) for change in changes] == [100]
    assert len(engine.check()[engine.commits]) == 100


@pytest.mark.parametrize("start_rounds", [0, 3])
def test_batches_finish_however_fast_requests_come(folder: RegistryFolder, start_rounds: int) -> None:
    """A batch takes four rounds, a start perhaps three, and a request comes in every round."""
    engine = FakeEngine(rounds=4, start_rounds=start_rounds, is_busy=False)
    changes = serve(folder, engine, rounds=80, each=lambda n: send(folder, one(f"q{n}", PAIR.format(n))))
    assert engine.commits >= 10
    cut_off = [batch for batch, _ in engine.done if engine.done.count((batch, engine.check()[batch])) > 1]
    assert not cut_off, "a batch that runs is not cut off for a request"
    added = [len(change.added) for change in changes]
    assert sum(added) >= 70, "no request waits for more than the batch that runs"
    assert max(added) <= 8
