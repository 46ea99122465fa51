"""The commit protocol of file sinks over storage in memory: each answer once, whatever crashes."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.spark.sinks.memory_tree import Crash, CrashAt, Disk, MemoryTree
from watersmeet.errors import DataError
from watersmeet.spark.sinks.answer_ids import Origin
from watersmeet.spark.sinks.file_commit import FileWriter, begin, commit, discard
from watersmeet.spark.sinks.files import FileSink
from watersmeet.spark.sinks.target import Batch
from watersmeet.spark.storage.tree import LocalTree

WRITER = FileWriter("paid", "9f3c01ab")
ONE = frozenset({"q"})
BATCHES = 3

Answers = Mapping[str, list[str]]  # of each query, in one batch


def answers(batch: int) -> Answers:
    """Two queries of two files each; batch 1 has no answers of one of them, batch 2 none at all."""
    found = {query: [f"{query}{batch}x", f"{query}{batch}y"] for query in ("q", "r")}
    return {"q": found["q"], "r": [] if batch == 1 else found["r"]} if batch < 2 else {"q": [], "r": []}


def write(tree: MemoryTree, batch: int, queries: frozenset[str], token: str, plan: str = "") -> None:
    """One try of a batch, as a driver makes it."""
    attempt = begin(tree, WRITER, batch=batch, queries=queries, token=token, plan=plan)
    rows = [row for query in sorted(attempt.due) for row in answers(batch)[query]]
    if not rows:
        discard(tree, attempt)
        return
    for number, row in enumerate(rows):
        assert tree.create(f"{attempt.staging}/part-{number:05}-{token}-c000.snappy.parquet", row)
    tree.create(f"{attempt.staging}/_SUCCESS", "")
    commit(tree, WRITER, attempt)


def published(disk: Disk) -> Counter[str]:
    """What a reader of the folder sees."""
    return Counter(text for path, text in disk.texts.items() if not path.startswith("_"))


def expected(batches: int, queries: frozenset[str]) -> Counter[str]:
    return Counter(row for batch in range(batches) for query in queries for row in answers(batch)[query])


def steps_of(act: Callable[[MemoryTree], None], disk: Disk) -> int:
    """How many steps a driver takes that nothing stops."""
    count = CrashAt(step=-1)
    act(MemoryTree(Disk(dict(disk.texts)), count))
    return count.steps


def test_a_batch_is_published_under_names_that_say_whose_it_is_and_leaves_its_record_only() -> None:
    disk = Disk()
    for batch in range(BATCHES):
        write(MemoryTree(disk), batch, ONE, token=str(batch))
    assert sorted(disk.texts) == [
        "_watersmeet/9f3c01ab/batch-1-0",
        *(f"paid-9f3c01ab-{batch}-{part}.snappy.parquet" for batch in range(2) for part in range(2)),
    ]
    assert published(disk) == expected(BATCHES, ONE)


def test_names_keep_partitions_and_endings_and_are_never_hidden() -> None:
    writer = FileWriter("_a b/c", "0011aabb", part="out")
    assert writer.file(3, 4, "k=1/part-00000-77f1-c000.csv.gz") == "k=1/a-b-c-0011aabb-3-4.csv.gz"
    assert FileWriter("..", "0011aabb").file(0, 1, "part-0") == "answers-0011aabb-0-1"
    assert writer.log == "_watersmeet/0011aabb-out"


def test_two_crashes_at_any_two_steps_and_other_queries_at_each_try_lose_and_repeat_nothing() -> None:
    sets = [frozenset("q"), frozenset("r"), frozenset("qr")]
    cases = 0
    for first, second in itertools.product(sets, sets):
        one_try = partial(write, batch=0, queries=first, token="a")
        next_try = partial(write, batch=0, queries=second, token="b")
        for one in range(steps_of(one_try, Disk()) + 1):
            disk = Disk()
            crashed(one_try, disk, one)
            seen = published(disk)
            for two in range(steps_of(next_try, disk) + 1):
                again = Disk(dict(disk.texts))
                crashed(next_try, again, two)
                assert published(again) >= seen, "what a reader has seen stays"
                for batch in range(BATCHES):
                    write(MemoryTree(again), batch, second, f"c{batch}")
                # Of a query that is no longer there, the batch is published whole or not at all.
                gone = first - second if one_of(published(again), first - second) else frozenset()
                assert published(again) == expected(BATCHES, second) + expected(1, gone)
                cases += 1
    assert cases > 700


def crashed(act: Callable[[MemoryTree], None], disk: Disk, step: int) -> None:
    try:
        act(MemoryTree(disk, CrashAt(step)))
    except Crash:
        return


def one_of(found: Counter[str], queries: frozenset[str]) -> bool:
    return any(row[0] in queries for row in found)


def test_a_reader_never_sees_a_file_of_a_batch_that_is_not_committed() -> None:
    total = steps_of(lambda tree: write(tree, 0, ONE, "a"), Disk())
    partly = 0
    for step in range(total):
        disk = Disk()
        crashed(lambda tree: write(tree, 0, ONE, "a"), disk, step)
        has_record = any("/batch-" in path for path in disk.texts)
        assert has_record or not published(disk)
        partly += 0 < published(disk).total() < expected(1, ONE).total()
    assert partly, "files appear one by one"


class Paused:
    """Lets a driver run up to a step, and go on when it is told to."""

    def __init__(self, disk: Disk, step: int, act: Callable[[MemoryTree], None]) -> None:
        self._step, self._steps = step, 0
        self._reached, self._go_on = threading.Event(), threading.Event()
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(MemoryTree(disk, self._before_step), act))
        self._thread.start()
        self._reached.wait()

    def _before_step(self) -> None:
        if self._steps == self._step:
            self._reached.set()
            self._go_on.wait()
        self._steps += 1

    def _run(self, tree: MemoryTree, act: Callable[[MemoryTree], None]) -> None:
        try:
            act(tree)
        except Exception as error:
            self.failure = error
        self._reached.set()

    def resume(self) -> None:
        self._go_on.set()
        self._thread.join()


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_driver_believed_dead_that_goes_on_publishes_nothing_twice(batches: int) -> None:
    """It stops at any step of batch 0; another run does this batch and later ones; then it goes on."""
    total = steps_of(lambda tree: write(tree, 0, ONE, "zombie"), Disk())
    refused = 0
    for step in range(total):
        disk = Disk()
        zombie = Paused(disk, step, lambda tree: write(tree, 0, ONE, "zombie"))
        for batch in range(batches):
            write(MemoryTree(disk), batch, ONE, f"live{batch}")
        zombie.resume()
        refused += isinstance(zombie.failure, DataError)
        write(MemoryTree(disk), 3, ONE, "later")
        assert published(disk) == expected(batches, ONE), step
    assert refused


def test_a_publication_that_a_crash_cut_short_is_completed_by_a_later_batch_too() -> None:
    """As when the only query of a sink is dropped after the crash, and another one comes later."""
    total = steps_of(lambda tree: write(tree, 0, ONE, "a"), Disk())
    disk = Disk()
    crashed(lambda tree: write(tree, 0, ONE, "a"), disk, total - 2)
    assert published(disk).total() < expected(1, ONE).total()
    begin(MemoryTree(disk), WRITER, batch=7, queries=frozenset("r"), token="b")
    assert published(disk) == expected(1, ONE)


def test_a_checkpoint_that_was_put_back_is_refused() -> None:
    disk = Disk()
    for batch in range(2):
        write(MemoryTree(disk), batch, ONE, str(batch))
    with pytest.raises(DataError, match="as if an older copy of the checkpoint had been put back"):
        write(MemoryTree(disk), 0, ONE, "again")


def test_a_batch_that_was_planned_anew_is_refused_since_it_may_take_more_than_the_first() -> None:
    """As when the copy of the checkpoint that is put back has all batches but the newest."""
    disk = Disk()
    write(MemoryTree(disk), 0, ONE, "a", plan="at noon")
    write(MemoryTree(disk), 0, ONE, "b", plan="at noon")
    with pytest.raises(DataError, match=r"batch 0 is to be written, but .* holds another batch 0 of the"):
        write(MemoryTree(disk), 0, ONE, "c", plan="at one")
    write(MemoryTree(disk), 1, ONE, "d", plan="at one")
    assert published(disk) == expected(2, ONE)


def test_a_damaged_record_is_refused_by_name() -> None:
    disk = Disk({"_watersmeet/9f3c01ab/batch-4-0": '{"queries":'})
    with pytest.raises(DataError, match=r"_watersmeet/9f3c01ab/batch-4-0 is damaged"):
        write(MemoryTree(disk), 4, ONE, "a")


def test_a_folder_that_cannot_be_a_folder_is_refused_in_words(tmp_path: Path) -> None:
    """And as what its own queries are to blame for, where many share a dataflow."""
    (tmp_path / "out").touch()
    sink = FileSink(
        what="sink out",
        format="parquet",
        path=f"file:{tmp_path}/out",
        options={},
        tree=LocalTree(tmp_path / "out"),
        name="out",
        part="",
    )
    with pytest.raises(DataError, match=rf"sink out: .*Not a directory.* Look at {tmp_path}/out, then start"):
        sink.check(["k"])


class Rows:
    """Answers that are written into a file, as far as there is room."""

    def __init__(self, room: bool) -> None:
        self._room = room

    @property
    def write(self) -> Rows:
        return self

    def format(self, name: str) -> Rows:
        return self

    def options(self, **options: str) -> Rows:
        return self

    def save(self, path: str) -> None:
        staging = Path(path.removeprefix("file:"))
        staging.mkdir(parents=True)
        (staging / "part-00000.json").write_text("{}" if self._room else "{")
        if not self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_try_that_finds_the_disk_full_leaves_its_room_to_the_next_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = FileSink(
        what="sink out",
        format="json",
        path=f"file:{out}",
        options={},
        tree=LocalTree(out),
        name="out",
        part="",
    )

    def batch(room: bool) -> Batch:
        origin = Origin("9f3c01ab", 0, 1)
        return Batch(number=0, plan="", origin=origin, queries=ONE, answers=lambda due: Rows(room))  # type: ignore[arg-type,return-value]

    for _ in range(3):
        with pytest.raises(DataError, match="the disk is full"):
            sink.write(batch(room=False))
        assert [path for path in out.rglob("*") if path.is_file() or "staging" in path.name] == []
    sink.write(batch(room=True))
    assert [path.read_text() for path in out.glob("*.json")] == ["{}"]
