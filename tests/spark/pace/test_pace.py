"""A backlog is read evenly in event time, in batches of bounded size, whatever streams and files are like."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from watersmeet.spark.pace.pace import Pace, StreamBatch
from watersmeet.spark.sources.batch_limits import BatchLimit

ROW_BYTES = 40
BATCH = 4_000_000  # bytes of a batch: 100,000 rows


@dataclass
class FakeSource:
    """Files in order of event time, of which whole ones are taken, at least one unless none may be."""

    files: list[tuple[int, int]]  # rows, and the event time at their end
    bytes_per_row: float = 10.0
    reached: int | None = None

    def take(self, allowed: int) -> int:
        rows, most = 0, allowed / self.bytes_per_row
        while self.files and allowed and (rows == 0 or rows + self.files[0][0] <= most):
            count, self.reached = self.files.pop(0)
            rows += count
        return rows


def files(rows: int, of: int, from_s: int, to_s: int) -> list[tuple[int, int]]:
    """So many files of so many rows, evenly over a time."""
    return [(of, int(1e6 * (from_s + (to_s - from_s) * (n + 1) / rows))) for n in range(rows)]


@dataclass
class Run:
    """An available-now run whose reports reach the pace one batch late, as they do while Spark goes on."""

    sources: dict[str, FakeSource]
    pace: Pace
    lag: int = 1

    def batches(self) -> list[dict[str, StreamBatch]]:
        done: list[dict[str, StreamBatch]] = []
        while any(source.files for source in self.sources.values()):
            allowed, unread = self.pace.release(), list[dict[str, StreamBatch]]()
            while True:
                taken = {name: source.take(allowed[name]) for name, source in self.sources.items()}
                if not any(taken.values()):
                    break  # the run ends; what has waited is left to the next one
                batch = {name: StreamBatch(rows, self.sources[name].reached) for name, rows in taken.items()}
                done.append(batch)
                unread.append(batch)
                if len(unread) > self.lag:
                    one = unread.pop(0)
                    rows = sum(each.rows for each in one.values())
                    allowed = self.pace.advance(one, rows * ROW_BYTES)
        return done


def limit(unit_bytes: float = ROW_BYTES / 10, share: float = 1.0) -> BatchLimit:
    return BatchLimit(int(share * BATCH / unit_bytes), False, unit_bytes)


def ahead_us(batch: dict[str, StreamBatch]) -> int:
    times = [each.max_ts_us for each in batch.values() if each.max_ts_us is not None]
    return max(times) - min(times)


@pytest.mark.parametrize(
    "share", [0.1, 0.5]
)  # of the thin stream: as it should be, or as if nothing were known
def test_streams_of_different_density_cover_the_same_time(share: float) -> None:
    sources = {
        "dense": FakeSource(files(6000, 1000, 0, 6000)),
        "thin": FakeSource(files(600, 1000, 0, 6000)),
    }
    limits = {"dense": limit(share=1 - share), "thin": limit(share=share)}
    batches = Run(sources, Pace(limits, BATCH, is_finite=True)).batches()
    assert sum(each.rows for batch in batches for each in batch.values()) == 6_600_000
    learnt = batches[len(batches) // 2 : -5] if share == 0.5 else batches[:-5]
    assert len(learnt) > 10
    span_us = 1e6 * 6000 * BATCH / ROW_BYTES / 6_600_000
    assert max(map(ahead_us, learnt)) <= 3 * span_us
    assert max(sum(each.rows for each in batch.values()) for batch in learnt) <= 1.3 * BATCH / ROW_BYTES


def test_a_stream_that_begins_later_waits_until_the_others_have_come_there() -> None:
    sources = {
        "first": FakeSource(files(2000, 1000, 0, 2000)),
        "later": FakeSource(files(1000, 1000, 1000, 2000)),
    }
    run = Run(sources, Pace({name: limit() for name in sources}, BATCH, is_finite=True))
    batches = run.batches()
    early = [
        batch for batch in batches if batch["first"].max_ts_us and batch["first"].max_ts_us < 900_000_000
    ]
    read = max(batch["later"].max_ts_us or 0 for batch in early)
    assert len(early) > 5
    assert read < 1_300_000_000  # what the first three batches took, before it was known
    assert sum(each.rows for batch in batches for each in batch.values()) == 3_000_000


def test_batches_shrink_where_tuples_take_more_than_was_assumed() -> None:
    sources = {"s": FakeSource(files(6000, 1000, 0, 6000))}
    run = Run(sources, Pace({"s": limit(unit_bytes=0.4)}, BATCH, is_finite=True))  # ten times too low
    sizes = [batch["s"].rows * ROW_BYTES for batch in run.batches()]
    assert sizes[0] > 5 * BATCH
    assert max(sizes[6:]) <= 1.3 * BATCH
    assert len(sizes) > 15


def test_nobody_waits_for_a_stream_that_is_merely_slow() -> None:
    pace = Pace({"a": limit(), "b": limit()}, BATCH)
    for second in range(1, 30):  # b's tuples come an hour late, a few a second
        now = 1_000_000 * second
        arrived = {"a": StreamBatch(1000, 3_600_000_000 + now), "b": StreamBatch(10, now)}
        assert all(pace.advance(arrived, 1010 * ROW_BYTES).values())
    assert not pace.waiting


def test_in_a_run_without_end_a_stream_waits_for_one_with_a_backlog() -> None:
    pace = Pace({"a": limit(), "b": limit()}, BATCH)
    for batch in range(1, 4):
        arrived = {
            "a": StreamBatch(1000, 86_400_000_000 + 1_000_000 * batch),
            "b": StreamBatch(100_000, 100_000_000 * batch),
        }
        allowed = pace.advance(arrived, 101_000 * ROW_BYTES)
    assert pace.waiting == {"a"}
    assert allowed["a"] == 0
    assert allowed["b"] > 0
    assert pace.release()["a"] > 0


@pytest.mark.parametrize("seed", range(20))
def test_every_backlog_is_read_to_its_end(seed: int) -> None:
    """Whatever the files are like, and however late the reports come, no stream waits for ever."""
    rng = random.Random(seed)
    sources = {}
    for name in ("a", "b", "c")[: rng.randint(2, 3)]:
        start, length = rng.randint(0, 2000), rng.randint(500, 4000)
        count = rng.randint(5, 800)
        sources[name] = FakeSource(
            files(count, rng.randint(1, 3000), start, start + length), rng.uniform(2, 40)
        )
    rows = sum(count for source in sources.values() for count, _ in source.files)
    pace = Pace({name: limit(rng.uniform(1, 8)) for name in sources}, BATCH // 10, is_finite=True)
    batches = Run(sources, pace, lag=rng.randint(0, 2)).batches()
    assert sum(each.rows for batch in batches for each in batch.values()) == rows
    assert len(batches) > 1
