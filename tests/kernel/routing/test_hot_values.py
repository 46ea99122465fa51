"""Hot values: through heating, spreading, cooling and swapping, every answer comes exactly once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL, chunk, observed_max, output_rows
from tests.strategies import cases
from watersmeet.kernel import (
    NO_HOT_VALUES,
    TS,
    BatchInput,
    Grid,
    HotTable,
    HotValue,
    InputLayout,
    JoinBucket,
    JoinLayout,
    Punctuation,
    cool,
    hash_keys,
    heat,
    may_spread,
    plan_bucket,
    route_hot,
)
from watersmeet.kernel.columns.hashing import hash_column
from watersmeet.kernel.layout import REF
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import (
    BEGINNING,
    UNBOUNDED,
    Column,
    Query,
    RangeWindow,
    Stream,
    TumbleWindow,
    UnboundedWindow,
    Window,
    range_us,
    tumble_us,
)
from watersmeet.sql import bind_query

Case = tuple[Query, list[MicroBatch]]
Examples = Callable[[int], settings]

TIMED = (RangeWindow, TumbleWindow)
MOSTLY_TIMED = (*TIMED, *TIMED, *TIMED, UnboundedWindow)


class Cluster:
    """Packing and buckets as the engine has them, the routing table changed at random between batches."""

    def __init__(self, query: Query, grid: Grid, rng: random.Random) -> None:
        self.query, self.grid, self.rng = query, grid, rng
        self.plan = plan_bucket(query, tuning=SMALL)
        self.buckets = [JoinBucket(self.plan) for _ in range(grid.buckets)]
        self.table = NO_HOT_VALUES
        self.newest: dict[str, int] = {}  # by alias
        self.hashes: dict[int, dict[int, int]] = {}  # class -> hash -> how often
        self.moved = 0  # tuples that are not at home, copies not counted
        self.expected: list[Any] = []  # the oracle's answers

    def step(self, batch: MicroBatch | None) -> list[pa.Table]:
        """One micro-batch, then perhaps a change of the table, then perhaps a restart."""
        marks = Punctuation(observed_max(self.query, batch or {}), is_end=batch is None)
        new: list[dict[str, pa.RecordBatch]] = [{} for _ in self.buckets]
        for item in self.query.inputs:
            tuples = chunk(self.query, item, (batch or {}).get(item.stream.name, ()))
            for bucket, part in self._pack(item.alias, tuples):
                new[bucket][item.alias] = part
        answers = []
        for bucket, own in zip(self.buckets, new, strict=True):
            answers += list(bucket.step(BatchInput(own, marks)))
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
        self.table = self.table.without_expired(watermark)
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
    cluster.expected = oracle.run(query, batches, flush=True).rows
    assert oracle.bag(output_rows(query, answers)) == oracle.bag(cluster.expected)
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
    with answers_in(0.9) as answered:
        for seed in range(200 if long_mode else 8):
            cluster = run(hot_case(shape, seed), [2 + seed % 3, 2, 2], seed)
            answered.count(cluster.expected)
            moved += cluster.moved
    assert moved > 20, "hardly a tuple was spread: nothing is shown"


def test_any_query_may_have_hot_values(examples: Examples) -> None:
    with answers_in(0.5) as answered:

        @given(
            cases(kinds=("plain",), windows=MOSTLY_TIMED, min_inputs=2, max_inputs=4),
            st.lists(st.integers(1, 3), min_size=6, max_size=6),
            st.integers(0, 1000),
        )
        @examples(20)
        def holds(case: Case, shares: list[int], seed: int) -> None:
            answered.count(run(case, shares, seed).expected)

        holds()


def keyed(rows: int, key: int = 1) -> pa.RecordBatch:
    return pa.record_batch(
        {TS: np.arange(rows), "__key0": np.full(rows, key), "v": np.arange(rows) % 7, "note": ["x"] * rows}
    )


def places(batch: pa.RecordBatch, line: HotValue, alias: str, grid: Grid) -> dict[int, set[int]]:
    """Each tuple's buckets, by its event time."""
    layout = InputLayout(alias, range_us(10), ((0, "__key0"),), ("v", "note"))
    found: dict[int, set[int]] = {}
    for part in route_hot(grid, layout, batch, HotTable((line,)), hash_keys(grid, layout, batch)):
        for ts in part.tuples.column(TS).to_pylist():
            found.setdefault(ts, set()).update(part.buckets)
    return found


def test_a_spread_tuple_goes_to_one_bucket_whatever_stands_beside_it() -> None:
    batch, grid = keyed(2000), Grid((5,))
    line = HotValue(0, int(hash_column(batch.column("__key0"))[0]), "a", spread_from=100)
    spread = places(batch, line, "a", grid)
    assert all(len(buckets) == 1 for buckets in spread.values())
    assert len(set.union(*(spread[ts] for ts in range(100)))) == 1, "at home before its time"
    counts = np.bincount([next(iter(spread[ts])) for ts in range(100, 2000)], minlength=5)
    assert counts.min() > 0.8 * counts.mean()
    backwards = batch.take(pa.array(np.arange(2000)[::-1]))
    assert places(backwards, line, "a", grid) == spread
    assert places(batch.slice(500, 300), line, "a", grid) == {ts: spread[ts] for ts in range(500, 800)}


def test_a_spread_tuple_goes_to_the_same_bucket_whoever_reads_it() -> None:
    """Its answers keep their ids when a batch is done again and wide text then comes late, or no longer."""
    batch, grid = keyed(2000), Grid((5,))
    line = HotValue(0, int(hash_column(batch.column("__key0"))[0]), "a", spread_from=100)
    referring = batch.drop_columns(["note"]).append_column(REF, pa.array(np.arange(2000)))
    moved = batch.select(["note", "v", "__key0", TS])
    assert (
        places(referring, line, "a", grid) == places(moved, line, "a", grid) == places(batch, line, "a", grid)
    )


def test_tuples_of_the_other_inputs_go_everywhere_until_the_value_has_cooled() -> None:
    batch, grid = keyed(20), Grid((5,))
    line = HotValue(0, int(hash_column(batch.column("__key0"))[0]), "a", spread_from=100)
    assert all(buckets == set(range(5)) for buckets in places(batch, line, "b", grid).values())
    cooling = replace(line, cooling=True, copied_until=12, expires_at=30)
    copied = places(batch, cooling, "b", grid)
    assert [len(copied[ts]) for ts in range(20)] == [5] * 12 + [1] * 8
    assert copied[12] == places(batch, cooling, "a", grid)[12], "home is the same for all"


def test_hand_over_times_are_those_of_the_example_in_the_module() -> None:
    minute = 60_000_000
    keys = ((0, "__key0"),)
    layout = JoinLayout(
        (
            InputLayout("a", range_us(5 * minute), keys, ()),
            InputLayout("b", range_us(10 * minute), keys, ()),
        ),
        delayed=False,
    )
    noon = 12 * 60 * minute
    hot = heat(layout, NO_HOT_VALUES, 0, 7, "a", {"a": 0, "b": noon})
    assert hot.values[0].spread_from == noon + 10 * minute + 1
    cooling = cool(layout, hot, hot.values[0], {"a": noon + 30 * minute, "b": noon})
    assert cooling.values[0].copied_until == noon + 35 * minute + 1
    assert cooling.values[0].expires_at == noon + 45 * minute + 1
    assert cooling.without_expired(noon + 45 * minute) == cooling
    assert cooling.without_expired(noon + 45 * minute + 1) == NO_HOT_VALUES
    with pytest.raises(ValueError, match="it has to cool first"):
        heat(layout, cooling, 0, 7, "b", {"a": noon})


@pytest.mark.parametrize(
    ("windows", "delayed", "holds"),
    [
        ((range_us(5), tumble_us(6)), False, True),
        ((range_us(5), UNBOUNDED), False, False),
        ((range_us(5), range_us(5)), True, False),
    ],
)
def test_only_windows_of_time_can_be_handed_over(
    windows: tuple[Window, Window], delayed: bool, holds: bool
) -> None:
    inputs = tuple(InputLayout(f"s{n}", each, ((0, "k"),), ()) for n, each in enumerate(windows))
    assert may_spread(JoinLayout(inputs, delayed), 0) is holds


def test_tables_are_told_apart_by_their_digest() -> None:
    tables = [
        NO_HOT_VALUES,
        *(HotTable((HotValue(0, n, "a", m),)) for n, m in [(1, 5), (2, 5), (1, 6)]),
    ]
    assert len({table.digest for table in tables}) == len(tables)
    assert NO_HOT_VALUES.digest == 0
    assert all(0 <= table.digest < 2**63 for table in tables)
