"""Wide rows are not copied as a whole: a join takes its state, and a few pieces and blocks beside it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.kernel import ChangeTracker, JoinBucket
from watersmeet.kernel import Tuning as KernelTuning
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Column, Stream
from watersmeet.spark.compile.tasks import JoinTasks
from watersmeet.spark.exchange.messages import FileName
from watersmeet.spark.exchange.packed_chunk import Pieces, encode, encode_into
from watersmeet.spark.stages.join_stage import JoinStage
from watersmeet.spark.stages.state_log import Head, StateLog
from watersmeet.spark.tuning import Tuning
from watersmeet.sql import bind_query
from watersmeet.testing import Setup
from watersmeet.testing.setup import query_dataflow

WIDTH, COUNT, PARTNERS = 1_000_000, 24, 3
PIECE, VALUE = 2 * WIDTH, WIDTH // 4
COLUMNS = (Column("k", "bigint"), Column("note", "string"), Column("ts", "timestamp"))
TUNING = Tuning(
    chunk_bytes=PIECE,
    piece_bytes=PIECE,
    frame_bytes=WIDTH,
    state_value_bytes=VALUE,
    kernel=KernelTuning(block_bytes=PIECE, merge_bytes=PIECE),
)


class ForgetfulState:
    """A state variable that only counts what is written."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def getValue(self, key: Any) -> None:  # noqa: N802 - Spark's names
        return None

    def updateValue(self, key: Any, value: tuple[bytes]) -> None:  # noqa: N802
        self.values.append(len(value[0]))


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """The memory that Arrow takes in one test, with its peak."""
    before = pa.default_memory_pool()
    fresh = pa.proxy_memory_pool(before)
    pa.set_memory_pool(fresh)
    try:
        yield fresh
    finally:
        pa.set_memory_pool(before)


def write_file(folder: Path, name: str, notes: list[str | None]) -> str:
    times = pa.array(range(len(notes)), pa.timestamp("us", "UTC"))
    file = folder / f"{name}.parquet"
    keys = pa.array([0] * len(notes), pa.int64())
    pq.write_table(pa.table({"k": keys, "note": pa.array(notes, pa.string()), "ts": times}), file)
    return file.as_uri()


def test_wide_rows_are_there_once_with_a_few_blocks_beside_them(tmp_path: Path, pool: pa.MemoryPool) -> None:
    wide = [write_file(tmp_path, f"a{number:02}", ["x" * WIDTH]) for number in range(COUNT)]
    narrow = write_file(tmp_path, "b", [None] * PARTNERS)
    streams = [Stream(name, COLUMNS, "ts") for name in "ab"]
    query = bind_query("SELECT a.note FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k", streams)
    setup = Setup(partitions=1, direct_files=True, tuning=TUNING)
    tasks = query_dataflow(plan_physical(query, 1, None, "shares"), setup, tmp_path / "routing").tasks.join
    assert isinstance(tasks, JoinTasks)
    stage = tasks.stages[-1].processor
    assert isinstance(stage, JoinStage)
    bucket = JoinBucket(stage.plan.bucket)
    work, label = stage.begin(bucket, 0, 0.0), stage.plan.labels[0]
    names = [*(FileName(label, 0, file) for file in wide), FileName(label, 1, narrow)]
    answers, frames = 0, []
    for found in map(bucket.step, work.read(iter(names))):
        for frame in work.answer(found):
            answers += len(frame)
            frames.append(int(frame.memory_usage(index=False).sum()))
            del frame
    answers += sum(len(frame) for frame in work.finish()) - 1  # the last row holds the metrics
    assert answers == COUNT * PARTNERS
    assert max(frames) < 2 * WIDTH
    assert bucket.state_bytes > COUNT * WIDTH
    assert pool.max_memory() < bucket.state_bytes + 3 * PIECE

    state = ForgetfulState()
    tracemalloc.start()
    try:
        StateLog(state, TUNING).write(  # type: ignore[arg-type] # it does not read
            Head("plan"), ChangeTracker().changes(bucket.persisted()), bucket.snapshot()
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(state.values) > COUNT * WIDTH
    assert max(state.values) <= VALUE
    assert peak < PIECE
    assert pool.max_memory() < bucket.state_bytes + 3 * PIECE


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
@pytest.mark.parametrize("at_least", [0, 50, 5_000])
def test_pieces_are_the_blob(size: int, at_least: int) -> None:
    batch = pa.record_batch({"v": np.arange(40), "w": pa.array([None, "a" * 60] * 20)})
    found: list[bytes] = []
    pieces = Pieces(size, found.append, at_least)
    encode_into(pieces, batch)
    assert b"".join([*found, pieces.rest]) == encode(batch)
    assert all(len(piece) == size for piece in found)
    assert 0 < len(pieces.rest) <= (size if found else max(size, at_least))
    assert bool(found) == (len(encode(batch)) > max(size, at_least))
