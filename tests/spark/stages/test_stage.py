"""A stage's state: the store is the truth, the worker's cache is only speed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.kernel.feeding import chunk, observed_max, output_rows
from tests.spark.pipelines import QUERIES, arrive, pipeline_text, random_batches, write_case
from tests.spark.processes import kill, python_workers, session_jvm
from watersmeet.errors import DataError
from watersmeet.kernel import Grid, plan_bucket
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Row, Tuple
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Query
from watersmeet.session import Session
from watersmeet.spark.exchange.messages import MESSAGES, Message, Progress, Tuples
from watersmeet.spark.exchange.packed_chunk import PackedChunk, decode
from watersmeet.spark.exchange.unpack import CHUNK
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.stages.join_stage import JoinStage
from watersmeet.spark.stages.stage_plan import StagePlan
from watersmeet.spark.tuning import DEFAULT, Tuning
from watersmeet.spark.worker import worker_cache
from watersmeet.spark.worker.worker_cache import WorkerCache
from watersmeet.sql import parse_pipeline

LABEL = 7
HEAD = ("head",)


class FakeStore:
    """Spark's state store as a stage sees it, with the keys of the chunks that were read."""

    def __init__(self, values: dict[Any, Any] | None = None) -> None:
        self.values = dict(values or {})
        self.reads: list[Any] = []

    def getMapState(self, name: str, key: object, value: object) -> FakeMap:  # noqa: N802 - Spark's name
        return FakeMap(self, name)

    @property
    def chunks(self) -> list[Any]:
        return [key for key in self.values if key[1] != HEAD]


class FakeMap:
    def __init__(self, store: FakeStore, name: str) -> None:
        self._store, self._name = store, name

    def getValue(self, key: Any) -> Any:  # noqa: N802
        if key != HEAD:
            self._store.reads.append(key)
        return self._store.values.get((self._name, key))

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self._store.values[self._name, key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self._store.values[self._name, key]


def _place(key: tuple[str]) -> tuple[str, int, int]:
    """The section, number and piece a key of the log names."""
    numbers, section = key[0].split(" ", 1)
    number, piece = numbers.split(".")
    return section, int(number), int(piece)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerCache]:
    """The cache of this process, empty before and after."""
    worker_cache.own_cache.cache_clear()
    yield worker_cache.worker_cache()
    worker_cache.own_cache.cache_clear()


@pytest.fixture
def query() -> Query:
    return parse_pipeline(pipeline_text(QUERIES["plain"])).queries[0]


def _plan(query: Query, partitions: int = 3, tuning: Tuning = DEFAULT) -> StagePlan:
    return StagePlan(
        name="join",
        bucket=plan_bucket(query),
        streams=tuple(item.stream.name for item in query.inputs),
        grid=Grid((1,)),
        labels=(LABEL,),
        fingerprint=plan_physical(query, partitions).fingerprint,
        tuning=tuning,
    )


def _wire(query: Query, batch: MicroBatch) -> pd.DataFrame:
    sent: list[Message] = []
    for number, item in enumerate(query.inputs):
        packed = chunk(query, item, batch.get(item.stream.name, ()))
        largest = observed_max(query, batch).get(item.stream.name)
        if largest is not None:
            sent.append(Progress(bucket=LABEL, input=number, max_ts=largest))
            sent.append(Tuples(LABEL, number, PackedChunk(packed)))
    return MESSAGES.to_pandas(sent)


def _outputs(
    query: Query, store: FakeStore, batch: MicroBatch, tuning: Tuning = DEFAULT
) -> Iterator[pd.DataFrame]:
    """One task over one batch."""
    stage = JoinStage(_plan(query, tuning=tuning))
    stage.init(store)  # type: ignore[arg-type]
    return stage.handleInputRows((LABEL,), iter([_wire(query, batch)]), None)


def _step(query: Query, store: FakeStore, batch: MicroBatch, tuning: Tuning = DEFAULT) -> list[Row]:
    """The rows a task answers; the store reads are of this task alone."""
    store.reads.clear()
    blobs = [blob for frame in _outputs(query, store, batch, tuning) for blob in frame[CHUNK] if blob]
    return output_rows(query, [pa.Table.from_batches([decode(blob)]) for blob in blobs])


def test_a_cached_bucket_reads_nothing_back(query: Query, cache: WorkerCache) -> None:
    store, found = FakeStore(), []
    batches = random_batches(seed=1)
    for batch in batches:
        found += _step(query, store, batch)
        assert store.reads == []
    assert oracle.bag(found) == oracle.bag(oracle.run(query, batches).rows)


def test_a_lost_cache_is_rebuilt_from_the_store(query: Query, cache: WorkerCache) -> None:
    store, found = FakeStore(), []
    batches = random_batches(seed=2, count=20, rows=15, keys=6)
    for batch in batches:
        cache._entries.clear()
        found += _step(query, store, batch)
        assert len(store.reads) <= 3 * 8, "small chunks are merged, so few are to be read"
    assert oracle.bag(found) == oracle.bag(oracle.run(query, batches).rows)


def test_a_worker_that_missed_batches_reads_only_what_it_lacks(query: Query, cache: WorkerCache) -> None:
    store = FakeStore()
    batches = random_batches(seed=3, count=4, rows=200, keys=30)
    found = _step(query, store, batches[0])
    behind, written = dict(cache._entries), {key for _, key in store.chunks}
    for batch in batches[1:3]:  # on another worker
        cache._entries.clear()
        found += _step(query, store, batch)
    cache._entries.clear()
    cache._entries.update(behind)
    found += _step(query, store, batches[3])
    assert store.reads
    assert not set(store.reads) & written
    assert oracle.bag(found) == oracle.bag(oracle.run(query, batches).rows)


def test_an_attempt_that_fails_leaves_nothing_behind(query: Query, cache: WorkerCache) -> None:
    store = FakeStore()
    batches = random_batches(seed=4, count=3)
    found = _step(query, store, batches[0])
    committed = FakeStore(store.values)
    attempt = _outputs(query, store, batches[1])
    next(attempt)
    attempt.close()  # the task dies here: Spark forgets its writes
    assert len(cache) == 0
    found += _step(query, committed, batches[1])
    found += _step(query, committed, batches[2])
    assert oracle.bag(found) == oracle.bag(oracle.run(query, batches).rows)


def test_an_attempt_whose_batch_failed_elsewhere_is_not_believed(query: Query, cache: WorkerCache) -> None:
    """Its bucket went through and was cached, but Spark runs the batch again from the state before."""
    store = FakeStore()
    batches = random_batches(seed=5, count=3)
    found = _step(query, store, batches[0])
    committed = FakeStore(store.values)
    _step(query, store, batches[1])
    assert len(cache) == 1
    found += _step(query, committed, batches[1])
    found += _step(query, committed, batches[2])
    assert oracle.bag(found) == oracle.bag(oracle.run(query, batches).rows)


def test_what_the_windows_have_passed_is_taken_out_of_the_store(query: Query, cache: WorkerCache) -> None:
    store = FakeStore()
    sizes = []
    for batch in random_batches(seed=6, count=12):
        _step(query, store, batch)
        sizes.append(sum(len(store.values[key][0]) for key in store.chunks))
    assert max(sizes[6:]) < 2 * max(sizes[:6])


def test_a_chunk_larger_than_a_piece_comes_back_whole(query: Query, cache: WorkerCache) -> None:
    tuning = Tuning(state_value_bytes=700, small_chunk_bytes=0)
    store, found = FakeStore(), []
    batches = random_batches(seed=7, count=8)
    for batch in batches:
        cache._entries.clear()
        found += _step(query, store, batch, tuning)
    places = [_place(key) for _, key in store.chunks]
    assert max(piece for _, _, piece in places) >= 1
    assert all(len(store.values[key][0]) <= 700 for key in store.chunks)
    assert oracle.bag(found) == oracle.bag(oracle.run(query, batches).rows)
    numbers = {(section, number) for section, number, _ in places}
    held = {(c.section, c.number) for e in cache._entries.values() for c in e.bucket.persisted()}
    assert numbers == held, "no piece of a chunk that is gone stays"


def test_bundles_of_small_chunks_go_with_the_last_of_them(query: Query, cache: WorkerCache) -> None:
    tuning = Tuning(state_value_bytes=3000)
    store, found = FakeStore(), []
    batches = random_batches(seed=7, count=12)
    for batch in batches:
        cache._entries.clear()
        found += _step(query, store, batch, tuning)
        places = [place for *_, place in json.loads(store.values["log", HEAD][0])["chunks"]]
        bundles = {f"bundle {place[0]}" for place in places if not isinstance(place, int)}
        assert bundles == {key[0] for _, key in store.chunks if key[0].startswith("bundle")}
        assert len(bundles) < len(places)
    assert oracle.bag(found) == oracle.bag(oracle.run(query, batches).rows)


def test_state_of_another_plan_is_refused_with_what_differs(query: Query, cache: WorkerCache) -> None:
    store = FakeStore()
    batches = random_batches(seed=8, count=2)
    _step(query, store, batches[0])
    stage = JoinStage(_plan(query, partitions=4))
    stage.init(store)  # type: ignore[arg-type]
    differs = "shuffle partitions: 3 in the checkpoint, 4 in the query"
    with pytest.raises(DataError, match=rf"(?s)different query.*\n  {differs}\n"):
        list(stage.handleInputRows((LABEL,), iter([_wire(query, batches[1])]), None))


def test_a_store_that_lacks_a_chunk_is_said_to_be_damaged(query: Query, cache: WorkerCache) -> None:
    store = FakeStore()
    batches = random_batches(seed=9, count=2)
    _step(query, store, batches[0])
    del store.values[store.chunks[0]]
    cache._entries.clear()
    with pytest.raises(DataError, match=r"the checkpoint lacks chunk \d+ of a: it is damaged"):
        _step(query, store, batches[1])


def test_without_room_in_the_cache_answers_are_the_same(
    query: Query, cache: WorkerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "limit_bytes", 0)
    store, found = FakeStore(), []
    batches = random_batches(seed=10)
    for batch in batches:
        found += _step(query, store, batch)
        assert len(cache) == 0
    assert oracle.bag(found) == oracle.bag(oracle.run(query, batches).rows)


def test_two_plans_in_one_streaming_query_have_places_of_their_own(query: Query, cache: WorkerCache) -> None:
    batch = random_batches(seed=11, count=1)[0]
    for partitions in (3, 4):
        stage = JoinStage(_plan(query, partitions))
        stage.init(FakeStore())  # type: ignore[arg-type]
        list(stage.handleInputRows((LABEL,), iter([_wire(query, batch)]), None))
    assert len(cache) == 2


def test_large_chunks_go_through_sparks_state_store_in_pieces(spark: SparkSession, tmp_path: Path) -> None:
    """A chunk of several pieces is written, all workers die, and the next batch needs it."""
    select = (
        "SELECT a.v AS va, b.v AS vb FROM s1 [RANGE 1 MINUTE] AS a, s2 [RANGE 1 MINUTE] AS b WHERE a.k = b.k"
    )
    batches: list[MicroBatch] = [{"s1": _wide_tuples("s1", 0)}, {"s2": _wide_tuples("s2", 1)}]
    case = write_case(tmp_path, select, batches, value_type="STRING", arrived=1)
    session, options = Session(spark), RunOptions(available_now=True)
    session.run(case.file, checkpoint=case.checkpoint, options=options)
    workers = python_workers(session_jvm(spark))
    assert workers
    assert all(map(kill, workers))
    arrive(case, [1])
    session.run(case.file, checkpoint=case.checkpoint, options=options)
    case.check(spark, flush=False)


def _wide_tuples(name: str, second: int) -> list[Tuple]:
    """Many pieces' worth of tuples, each with a value of its own."""
    width = 4 * DEFAULT.state_value_bytes // 60
    return [
        Tuple(second * 1_000_000, {"k": place, "v": f"{name} {place} ".ljust(width, "x")})
        for place in range(60)
    ]
