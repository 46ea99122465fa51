"""The coordinator without Spark: what it counts, decides and keeps, and that answers stay exact."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.kernel.feeding import chunk, observed_max, output_rows
from watersmeet.errors import DataError
from watersmeet.kernel import (
    NO_HOT_VALUES,
    BatchInput,
    Grid,
    HotTable,
    HotValue,
    JoinBucket,
    Punctuation,
    Watermark,
    hash_keys,
    plan_bucket,
    route_hot,
)
from watersmeet.kernel.columns.hashing import hash_column
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Column, Query, Stream
from watersmeet.spark.exchange.hot_keys import HotKeys, check_tables, encode_summaries, table_of
from watersmeet.spark.exchange.messages import Progress
from watersmeet.spark.exchange.routing_files import KEPT, RoutingFiles
from watersmeet.spark.stages.hot_key_coordinator import HotKeyCoordinator, State
from watersmeet.sql import bind_query

SECOND_US = 1_000_000
COLUMNS = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
STREAMS = [Stream(name, COLUMNS, "ts", lateness_us=SECOND_US) for name in ("s1", "s2", "s3")]
THREE = bind_query(
    "SELECT a.v AS va, b.v AS vb, c.v AS vc FROM s1 [RANGE 2 SECONDS] AS a, s2 [RANGE 1 SECOND] AS b, "
    "s3 [TUMBLE 3 SECONDS] AS c WHERE a.k = b.k AND b.k = c.k",
    STREAMS,
)
HOT = int(hash_column(pa.array([0]))[0])  # of the key 0


@dataclass
class Engine:
    """Pack, buckets and coordinator as Spark runs them, all state through JSON after every batch."""

    query: Query
    grid: Grid = field(default_factory=lambda: Grid((4,)))
    is_on: bool = True
    state: State = field(default_factory=dict)
    work: list[np.ndarray] = field(default_factory=list)  # by batch: tuples in and answers out, a bucket each

    def __post_init__(self) -> None:
        self.plan = plan_bucket(self.query)
        self.buckets = [JoinBucket(self.plan) for _ in range(self.grid.buckets)]
        streams = tuple(item.stream.name for item in self.query.inputs)
        self.hot = HotKeys("", "", (0,), self.is_on, min_rows=60)
        self.coordinator = HotKeyCoordinator(self.plan.layout, streams, self.grid, self.hot)

    @property
    def table(self) -> HotTable:
        return table_of(self.state)

    def step(self, batch: MicroBatch | None) -> list[pa.Table]:
        marks = Punctuation(observed_max(self.query, batch or {}), is_end=batch is None)
        new: list[dict[str, pa.RecordBatch]] = [{} for _ in self.buckets]
        reported = []
        for number, item in enumerate(self.query.inputs):
            layout, tuples = (
                self.plan.layout.inputs[number],
                chunk(self.query, item, (batch or {}).get(item.stream.name, ())),
            )
            if tuples.num_rows:
                hashes = hash_keys(self.grid, layout, tuples)
                for part in route_hot(self.grid, layout, tuples, self.table, hashes):
                    for bucket in part.buckets:
                        new[bucket][item.alias] = part.tuples
                min_ts = min(t.ts for t in (batch or {})[item.stream.name])
                summary = encode_summaries(self.hot, self.grid, hashes, min_ts)
                reported.append(Progress(bucket=0, input=number, summary=summary))
        answers = [list(b.step(BatchInput(own, marks))) for b, own in zip(self.buckets, new, strict=True)]
        self.work.append(
            np.array(
                [
                    sum(part.num_rows for part in own.values()) + sum(table.num_rows for table in out)
                    for own, out in zip(new, answers, strict=True)
                ]
            )
        )
        random.Random(len(self.work)).shuffle(reported)
        after = self.coordinator.step(self.state, reported, self.buckets[0].watermark)
        self.state = json.loads(json.dumps(after))
        return [table for out in answers for table in out]

    def run(self, batches: list[MicroBatch]) -> None:
        """Runs all of it, and checks it against the oracle."""
        answers = [table for batch in [*batches, None] for table in self.step(batch)]
        expected = oracle.run(self.query, batches, flush=True)
        assert expected.rows
        assert oracle.bag(output_rows(self.query, answers)) == oracle.bag(expected.rows)

    def busiest_share(self, since: int) -> float:
        work = sum(self.work[since:])
        return float(work.max() / work.mean())


def batches(rng: random.Random, weights: list[list[float]], count: int, rows: int = 60) -> list[MicroBatch]:
    """One second of event time a batch, keys by these weights in each stream, out of order."""

    def one(number: int, key: int) -> Tuple:
        ts = rng.randrange(number * SECOND_US - SECOND_US // 2, (number + 1) * SECOND_US)
        return Tuple(ts, {"k": key, "v": rng.randrange(1000)})

    return [
        {
            stream.name: [one(number, key) for key in rng.choices(range(len(own)), own, k=rows)]
            for stream, own in zip(STREAMS, weights, strict=True)
        }
        for number in range(count)
    ]


def single(share: float, others: int = 60) -> list[float]:
    return [share, *([(1 - share) / others] * others)]


@pytest.mark.parametrize("skew", [0.0, 0.9, pytest.param(1.5, marks=pytest.mark.variant)])
def test_answers_are_the_oracles_and_buckets_are_even_at_any_skew(skew: float) -> None:
    weights = [[1 / n**skew for n in range(1, 400)]] * 3
    given = batches(random.Random(4), weights, 14, 20)
    without, with_it = Engine(THREE, is_on=False), Engine(THREE)
    without.run(given)
    with_it.run(given)
    assert without.table == NO_HOT_VALUES
    if skew >= 1.2:
        assert without.busiest_share(5) > 2
        assert with_it.busiest_share(5) < 1.5


def test_a_value_is_spread_on_its_frequent_stream_then_cools_then_on_the_other() -> None:
    rng, even = random.Random(5), single(1 / 61)
    phases = [(single(0.6), even, even)] * 6 + [(even, even, even)] * 8 + [(even, single(0.6), even)] * 6
    given: list[MicroBatch] = []
    for number, weights in enumerate(phases):
        (made,) = batches(rng, list(weights), 1, 40)
        shift = number * SECOND_US
        moved = {name: [Tuple(t.ts + shift, t.values) for t in own] for name, own in made.items()}
        given.append(moved)
    engine, lines = Engine(THREE), []
    answers = []
    for batch in given:
        answers += engine.step(batch)
        line = engine.table.find(0, HOT)
        lines.append(line and (line.spread, line.cooling))
    answers += engine.step(None)
    assert list(dict.fromkeys(lines)) == [("a", False), ("a", True), None, ("b", False)]
    assert oracle.bag(output_rows(THREE, answers)) == oracle.bag(oracle.run(THREE, given, flush=True).rows)


def test_a_coordinator_switched_off_lets_what_is_hot_cool() -> None:
    given = batches(random.Random(6), [single(0.7), single(0.05), single(0.05)], 5, 40)
    engine = Engine(THREE)
    for batch in given[:3]:
        engine.step(batch)
    assert [line.cooling for line in engine.table.values] == [False]
    off = Engine(THREE, is_on=False, state=engine.state)
    off.buckets = engine.buckets
    off.step(given[3])
    assert [line.cooling for line in off.table.values] == [True]


def test_old_tuples_fade_and_the_order_of_rows_does_not_matter() -> None:
    engine = Engine(THREE)
    for batch in batches(random.Random(7), [single(0.5)] * 3, 30, 50):
        engine.step(batch)
    live = engine.state["sketches"]["0 a"]["total"]
    assert 70 < live < 130, "two seconds of fifty tuples a second"


def test_an_empty_batch_decides_nothing() -> None:
    engine = Engine(THREE)
    assert engine.coordinator.step({}, [], Watermark(engine.plan.lateness)) == {}


LINE = HotValue(0, HOT, "a", 10)


def test_a_batch_reads_the_newest_table_that_is_not_after_it(tmp_path: Path) -> None:
    files = RoutingFiles(tmp_path / "routing")
    assert files.read(5) == NO_HOT_VALUES
    files.write(3, HotTable((LINE,)))
    files.write(7, NO_HOT_VALUES)
    assert files.read(2) == NO_HOT_VALUES
    assert files.read(3) == files.read(6) == HotTable((LINE,))
    assert files.read(7) == NO_HOT_VALUES
    files.forget(7)
    assert files.read(7) == HotTable((LINE,))


def test_old_tables_go_but_not_those_a_resumed_query_may_ask_for(tmp_path: Path) -> None:
    files = RoutingFiles(tmp_path)
    for number in range(30):
        files.write(number, HotTable((HotValue(0, number, "a", 0),)))
    assert len(list(tmp_path.iterdir())) == KEPT + 2
    assert files.read(28) == HotTable((HotValue(0, 28, "a", 0),))


def test_a_run_that_missed_a_table_is_known_by_all_tries_of_its_tasks(tmp_path: Path) -> None:
    files, table = RoutingFiles(tmp_path / "routing"), HotTable((LINE,))
    assert not files.was_put_back(4, "run")
    files.put_back(4, table, "run")
    assert files.read(4) == table
    assert files.was_put_back(4, "run")
    assert not files.was_put_back(4, "the next run")
    assert not files.was_put_back(5, "run")


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "000000000003.json").write_text("{")
    with pytest.raises(DataError, match=r"000000000003\.json cannot be read"):
        RoutingFiles(tmp_path).read(4)


def test_tuples_sent_by_different_tables_are_refused() -> None:
    with pytest.raises(DataError, match="different routing tables"):
        check_tables({1, 2}, None, None)
    with pytest.raises(DataError, match="same checkpoint folder"):
        check_tables({NO_HOT_VALUES.digest}, HotTable((LINE,)), None)
    check_tables({HotTable((LINE,)).digest}, HotTable((LINE,)), None)
