"""Hot values: through heating, spreading, cooling and swapping, every answer comes exactly once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.feeding import chunk, observed_max, output_rows
from tests.strategies import cases
from watersmeet import oracle
from watersmeet.kernel import (
    NO_HOT_VALUES,
    Grid,
    HotTable,
    JoinBucket,
    Marks,
    cool,
    hash_keys,
    heat,
    may_spread,
    plan_bucket,
    route_hot,
)
from watersmeet.oracle import MicroBatch, Tuple
from watersmeet.query import (
    BEGINNING,
    Column,
    Query,
    Stream,
    WindowKind,
)
from watersmeet.sql import bind_query

Case = tuple[Query, list[MicroBatch]]
Examples = Callable[[int], settings]

TIMED = (WindowKind.RANGE, WindowKind.TUMBLE)
MOSTLY_TIMED = (*TIMED, *TIMED, *TIMED, WindowKind.UNBOUNDED)


class Cluster:
    """Packing and buckets as the engine has them, the routing table changed at random between batches."""

    def __init__(self, query: Query, grid: Grid, rng: random.Random) -> None:
        self.query, self.grid, self.rng = query, grid, rng
        self.plan = plan_bucket(query)
        self.buckets = [JoinBucket(self.plan) for _ in range(grid.buckets)]
        self.table = NO_HOT_VALUES
        self.newest: dict[str, int] = {}  # by alias
        self.hashes: dict[int, dict[int, int]] = {}  # class -> hash -> how often
        self.moved = 0  # tuples that are not at home, copies not counted

    def step(self, batch: MicroBatch | None) -> list[pa.Table]:
        """One micro-batch, then perhaps a change of the table, then perhaps a restart."""
        marks = Marks(observed_max(self.query, batch or {}), is_end=batch is None)
        new: list[dict[str, pa.RecordBatch]] = [{} for _ in self.buckets]
        for item in self.query.inputs:
            tuples = chunk(self.query, item, (batch or {}).get(item.stream.name, ()))
            for bucket, part in self._pack(item.alias, tuples):
                new[bucket][item.alias] = part
        answers = []
        for bucket, own in zip(self.buckets, new, strict=True):
            answers += list(bucket.step(own, marks))
        for item in self.query.inputs:
            seen = marks.max_ts.get(item.stream.name, BEGINNING)
            self.newest[item.alias] = max(self.newest.get(item.alias, BEGINNING), seen)
        self._change_table()
        if self.rng.random() < 0.3:
            self._restart()
        return answers

    def _pack(self, alias: str, tuples: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        layout = self.plan.layout.of(alias)
        for _, name in layout.keys:
            tuples = tuples.filter(tuples.column(name).is_valid())
        if not tuples.num_rows:
            return []
        hashes = hash_keys(self.grid, layout, tuples)
        for cls, column in hashes.items():
            counts = self.hashes.setdefault(cls, {})
            for value in column.tolist():
                counts[value] = counts.get(value, 0) + 1
        parts = route_hot(self.grid, layout, tuples, self.table, hashes)
        sent = [(bucket, part) for part in parts for bucket in part.buckets]
        counted = [
            part.tuples.num_rows - part.copies
            for bucket, part in sent
            if self.grid.is_home(bucket, layout.classes)
        ]
        assert sum(counted) == tuples.num_rows
        plain = route_hot(self.grid, layout, tuples, NO_HOT_VALUES, hashes)
        at_home = {part.buckets: part.tuples.num_rows for part in plain}
        self.moved += sum(
            abs(part.tuples.num_rows - part.copies - at_home.get(part.buckets, 0)) for part in parts
        )
        return [(bucket, part.tuples) for bucket, part in sent]

    def _change_table(self) -> None:
        """Any change the rules allow, and some that happen together."""
        watermark = self.buckets[0].watermark.now
        self.table = self.table.without_over(watermark)
        for cls, counts in self.hashes.items():
            if not may_spread(self.plan.layout, cls):
                continue
            inputs = [item.alias for item in self.plan.layout.inputs if cls in item.classes]
            for value in sorted(counts, key=lambda one: -counts[one])[:3]:
                known = self.table.find(cls, value)
                if (known is None or known.cooling) and self.rng.random() < 0.8:
                    alias = known.spread if known else self.rng.choice(inputs)
                    self.table = heat(self.plan.layout, self.table, cls, value, alias, self.newest)
                elif known is not None and not known.cooling and self.rng.random() < 0.2:
                    self.table = cool(self.plan.layout, self.table, known, self.newest)

    def _restart(self) -> None:
        """All that survives goes through what is persisted."""
        self.buckets = [
            JoinBucket.restore(self.plan, json.loads(json.dumps(bucket.snapshot())), bucket.persisted())
            for bucket in self.buckets
        ]
        self.table = HotTable.from_json(json.loads(json.dumps(self.table.to_json())))


def run(case: Case, shares: list[int], seed: int) -> Cluster:
    query, batches = case
    grid = Grid(tuple(shares[: len(query.graph.classes)]))
    cluster, answers = Cluster(query, grid, random.Random(seed)), []
    for batch in [*batches, None]:
        answers += cluster.step(batch)
    expected = oracle.run(query, batches, flush=True)
    assert oracle.bag(output_rows(query, answers)) == oracle.bag(expected.rows)
    return cluster


QUERIES = {
    "same key": "s1 {0} AS a, s2 {1} AS b, s3 {2} AS c WHERE a.k = b.k AND b.k = c.k",
    "pair": "s1 {0} AS a, s2 {1} AS b WHERE a.k = b.k",
    "self-join": "s1 {0} AS a, s1 {1} AS b, s2 {2} AS c WHERE a.k = b.k AND b.k = c.k",
    "chain": "s1 {0} AS a, s2 {1} AS b, s3 {2} AS c WHERE a.k = b.k AND b.j = c.j",
    "triangle": "s1 {0} AS a, s2 {1} AS b, s3 {2} AS c WHERE a.k = b.k AND b.j = c.j AND c.v = a.v",
    "composite": "s1 {0} AS a, s2 {1} AS b WHERE a.k = b.k AND a.j = b.j",
}
WINDOWS = ("[RANGE 4 MICROSECONDS]", "[RANGE 9 MICROSECONDS]", "[TUMBLE 6 MICROSECONDS]")
LATENESS_US = 3
COLUMNS = (Column("k", "bigint"), Column("j", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))


def hot_case(shape: str, seed: int) -> Case:
    """Many short batches in which a value or two are most of the tuples, out of order, some of them late."""
    rng = random.Random(f"{shape} {seed}")
    streams = [Stream(f"s{n}", COLUMNS, "ts", lateness_us=LATENESS_US) for n in (1, 2, 3)]
    windows = [rng.choice(WINDOWS) for _ in range(3)]
    sql = f"SELECT a.v AS va, b.v AS vb, answer_time FROM {QUERIES[shape].format(*windows)}"

    def tuple_at(now: int) -> Tuple:
        late = rng.random() < 0.05
        key, other = (0 if rng.random() < 0.8 else rng.randrange(3) for _ in range(2))
        ts = now + rng.randrange(4) - rng.randrange(LATENESS_US) - (10 if late else 0)
        return Tuple(
            ts, {"k": key, "j": other, "v": rng.randrange(2) if shape == "triangle" else rng.randrange(99)}
        )

    batches: list[MicroBatch] = [
        {stream.name: [tuple_at(3 * number) for _ in range(rng.randrange(4))] for stream in streams}
        for number in range(16)
    ]
    return bind_query(sql, streams), batches


@pytest.mark.parametrize("shape", QUERIES)
def test_answers_are_the_oracles_however_values_heat_and_cool(shape: str, long_mode: bool) -> None:
    moved = 0
    for seed in range(400 if long_mode else 12):
        moved += run(hot_case(shape, seed), [2 + seed % 3, 2, 2], seed).moved
    assert moved > 30, "hardly a tuple was spread: nothing is shown"


def test_any_query_may_have_hot_values(examples: Examples) -> None:
    @given(
        cases(kinds=("plain",), windows=MOSTLY_TIMED, min_inputs=2, max_inputs=4),
        st.lists(st.integers(1, 3), min_size=6, max_size=6),
        st.integers(0, 1000),
    )
    @examples(40)
    def holds(case: Case, shares: list[int], seed: int) -> None:
        run(case, shares, seed)

    holds()
