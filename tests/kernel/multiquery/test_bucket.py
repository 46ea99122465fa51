"""A ring gives every query exactly the oracle's bag, whoever else asks and whenever each came or went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.multiquery.feeding import run_dataflow
from tests.kernel.multiquery.test_planned_dataflows import check
from tests.plan.multiquery.query_sets import QuerySetCase, query_sets
from watersmeet.errors import DataError
from watersmeet.kernel import TS, SharedBucket, route_rows
from watersmeet.kernel.columns import hashing
from watersmeet.kernel.multiquery import bucket as dataflow_module
from watersmeet.kernel.multiquery import relation_store
from watersmeet.kernel.routing.grid import coordinate
from watersmeet.kernel.state import store as store_module
from watersmeet.oracle.oracle import Tuple
from watersmeet.query import Column, Stream, range_us
from watersmeet.query.shared_dataflow import (
    Feed,
    Join,
    KeyColumn,
    QueryTail,
    Relation,
    SharedDataflow,
    TailTemplate,
)
from watersmeet.sql import bind_query

Examples = Callable[[int], settings]

COLUMNS = (Column("x", "bigint"), Column("y", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
A, B, C = (Stream(name, COLUMNS, "ts") for name in "abc")
TEN = range_us(10)
CHAIN_SQL = (
    "SELECT a.v AS a_v, b.v AS b_v, c.v AS c_v FROM a [RANGE 10 US], b [RANGE 10 US], c [RANGE 10 US] "
    "WHERE a.x = b.x AND b.y = c.y"
)
PAIR_SQL = "SELECT a.v AS a_v, b.v AS b_v FROM a [RANGE 10 US], b [RANGE 10 US] WHERE a.x = b.x"


def test_every_query_gets_the_oracles_bag_in_small_blocks(examples: Examples) -> None:
    @given(query_sets(), st.integers(1, 3), st.booleans())
    @examples(30)
    def holds(case: QuerySetCase, buckets: int, restore: bool) -> None:
        check(case, buckets, keeps_ended=True, restore=restore)

    holds()


def test_colliding_hashes_never_make_a_result(examples: Examples, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one bit of hash everything collides; only the verification tells keys apart."""
    for module in (relation_store, dataflow_module, store_module):
        monkeypatch.setattr(module, "hash_column", lambda column: hashing.hash_column(column) & np.uint64(1))

    @given(query_sets(max_queries=3, max_inputs=3))
    @examples(20)
    def holds(case: QuerySetCase) -> None:
        check(case, 1, keeps_ended=False, restore=False)

    holds()


def relation(stream: str, route: str, level: int, streams: tuple[str, ...] = ("a", "b", "c")) -> Relation:
    return Relation(
        name=f"{stream} by {route}",
        level=level,
        source=f"{stream}.{route}",
        window=TEN,
        slot=stream,
        route=route,
        keys=(route,),
        columns=("v", "y"),
        streams=streams,
    )


def feed(stream: str, route: str, level: int) -> Feed:
    key = KeyColumn(route, f"{stream}.{route}", "bigint")
    columns = tuple(name for name in ("v", "y") if name != route)
    return Feed(
        name=f"{stream}.{route}", stream=stream, route=route, keys=(key,), columns=columns, levels=(level,)
    )


def ending(number: int, join: str, slots: str, **changes: Any) -> QueryTail:
    outputs = tuple((f"{slot}_v", f"{slot}.v") for slot in slots)
    alias_slots = tuple((slot, slot) for slot in slots)
    return replace(
        QueryTail(
            query=f"q{number}",
            number=number,
            join=join,
            streams=tuple(slots),
            slots=alias_slots,
            outputs=outputs,
        ),
        **changes,
    )


PAIR = Join(
    name="ab",
    level=1,
    members=("a by x", "b by x"),
    equalities=(("a.x", "b.x"),),
    columns=("a.v", "b.v", "b.y"),
    slots=("a", "b"),
)
PAIR_BY_Y = Relation(
    name="ab by b.y",
    level=2,
    source="ab",
    window=None,
    slot=None,
    route="b.y",
    keys=("b.y",),
    columns=("a.v", "b.v"),
    streams=("a", "b", "c"),
)
CHAIN = Join(
    name="abc",
    level=2,
    members=("ab by b.y", "c by y"),
    equalities=(("b.y", "c.y"),),
    columns=("a.v", "b.v", "c.v"),
    slots=("a", "b", "c"),
)
BASE = SharedDataflow(
    levels=2,
    streams=("a", "b", "c"),
    feeds=(feed("a", "x", 1), feed("b", "x", 1), feed("c", "y", 2)),
    relations=(relation("a", "x", 1), relation("b", "x", 1), PAIR_BY_Y, relation("c", "y", 2)),
    joins=(PAIR, CHAIN),
)
QUERIES = {"q0": bind_query(CHAIN_SQL, [A, B, C]), "q1": bind_query(PAIR_SQL, [A, B, C])}


def row(ts: int, v: int, x: int | None = 1, y: int | None = 1) -> Tuple:
    return Tuple(ts, {"x": x, "y": y, "v": v})


def rows_of(
    dataflow: SharedDataflow, batches: list[dict[str, list[Tuple]]], **options: Any
) -> dict[str, list[Any]]:
    queries = {one.query: QUERIES[one.query] for one in dataflow.tails}
    return {
        name: sorted(rows)
        for name, rows in run_dataflow(lambda _: dataflow, queries, batches, **options).rows.items()
    }


def test_a_shared_join_serves_a_query_that_ends_there_and_one_that_goes_on() -> None:
    dataflow = replace(BASE, tails=(ending(0, "abc", "abc"), ending(1, "ab", "ab")))
    batches = [{"a": [row(0, 1)]}, {"b": [row(3, 2), row(4, 3, y=None)]}, {"c": [row(5, 4), row(12, 5)]}]
    assert rows_of(dataflow, batches) == {"q0": [(1, 2, 4)], "q1": [(1, 2), (1, 3)]}


def test_each_row_is_joined_once_though_blocks_grow() -> None:
    """After rows with many matches blocks are small; as soon as matches are few they are large again."""
    dataflow = replace(BASE, tails=(ending(1, "ab", "ab"),))
    many = [row(0, n) for n in range(8)]
    batches = [{"b": [*many, row(0, 9, x=2)]}, {"a": [row(1, 0)]}, {"a": [row(2, n, x=2) for n in range(6)]}]
    expected = [*((0, n) for n in range(8)), *((n, 9) for n in range(6))]
    assert rows_of(dataflow, batches) == {"q1": sorted(expected)}


def test_a_result_ends_with_the_first_of_its_tuples() -> None:
    """b alone would still meet c at 12; a, which ended at 11, does not."""
    dataflow = replace(BASE, tails=(ending(0, "abc", "abc"),))
    batches = [{"a": [row(0, 1)], "b": [row(5, 2)]}, {"c": [row(12, 3)]}, {"c": [row(10, 4)]}]
    late_c = replace(C, lateness_us=10)
    queries = {"q0": bind_query(CHAIN_SQL, [A, B, late_c])}
    for restore in (False, True):
        outcome = run_dataflow(lambda _: dataflow, queries, batches, 2, restore=restore)
        assert outcome.rows["q0"] == [(1, 2, 4)]


def test_late_is_late_by_the_progress_of_a_querys_own_streams() -> None:
    """The tuple of a at 5 is behind a and b, but not behind c, which q0 also waits for."""
    dataflow = replace(BASE, tails=(ending(0, "abc", "abc"), ending(1, "ab", "ab")))
    batches = [{"a": [row(9, 1)], "b": [row(9, 2)]}, {"a": [row(5, 3)]}, {"c": [row(9, 4)]}]
    for buckets in (1, 3):
        assert rows_of(dataflow, batches, buckets=buckets) == {"q0": [(1, 2, 4), (3, 2, 4)], "q1": [(1, 2)]}


def test_what_is_late_for_every_query_is_dropped_and_counted_once() -> None:
    dataflow = replace(BASE, tails=(ending(1, "ab", "ab"),))
    batches = [{"a": [row(9, 1)], "b": [row(9, 2)]}, {"a": [row(5, 3), row(9, 4)]}]
    outcome = run_dataflow(lambda _: dataflow, {"q1": QUERIES["q1"]}, batches)
    assert outcome.counts[1][1, 0].late == {"a": 1}
    assert outcome.counts[1][1, 0].indexed == {"a.x": 1}
    assert outcome.buckets[1, 0].state_rows == {"tuples": 3, "results": 0, "held": 0}


def test_a_query_sees_tuples_from_its_insertion_on_and_none_once_it_is_dropped() -> None:
    first = ending(0, "abc", "abc", until=3)
    second = ending(1, "ab", "ab", since=1)
    dataflows = [replace(BASE, tails=(first,)), *[replace(BASE, tails=(first, second))] * 3]
    batches = [
        {"a": [row(0, 1)]},
        {"b": [row(0, 2)]},
        {"a": [row(1, 3)], "c": [row(1, 5)]},
        {"c": [row(1, 6)]},
    ]
    outcome = run_dataflow(lambda batch: dataflows[batch], QUERIES, batches)
    assert sorted(outcome.rows["q0"]) == [(1, 2, 5), (3, 2, 5)]
    assert outcome.rows["q1"] == [(3, 2)]
    assert outcome.buckets[2, 0].state_rows == {"tuples": 0, "results": 0, "held": 0}
    assert outcome.counts[2][1, 0].answers == {1: 1}


def test_a_column_that_came_later_reads_null_in_older_rows() -> None:
    older = replace(BASE, tails=(ending(1, "ab", "ab"),))
    wider = tuple(
        replace(one, columns=(*one.columns, "x2")) if one.slot == "b" else one for one in BASE.relations
    )
    asked = ending(2, "ab", "ab", outputs=(("a_v", "a.v"), ("b_x2", "b.x2")))
    newer = replace(BASE, relations=wider, tails=(ending(1, "ab", "ab"), asked))
    bucket = SharedBucket(older, 1)
    held = pa.record_batch({TS: pa.array([0]), "x": pa.array([1]), "v": pa.array([7]), "y": pa.array([1])})
    assert list(bucket.step({"b.x": [held]}, {}, {}, 0)) == []
    bucket = SharedBucket.restore(newer, 1, bucket.snapshot(), bucket.persisted())
    also = held.append_column("x2", pa.array(["new"]))
    list(bucket.step({"b.x": [also]}, {}, {}, 1))
    found = list(bucket.step({"a.x": [held]}, {}, {}, 2))
    tables = {one.target.outputs: one.table for one in found if isinstance(one.target, TailTemplate)}
    assert sorted(map(str, tables[asked.outputs]["b_x2"].to_pylist())) == ["None", "new"]


def test_composite_keys_and_null() -> None:
    """A second equality joins the probe where both sides have it as a key; NULL is not equal to NULL."""
    wide = [replace(relation(s, "x", 1), keys=("x", "y"), columns=("v",)) for s in "ab"]
    join = replace(PAIR, equalities=(("a.x", "b.x"), ("a.y", "b.y")))
    feeds = tuple(
        Feed(
            name=f"{s}.x",
            stream=s,
            route="x",
            keys=tuple(KeyColumn(n, f"{s}.{n}", "bigint") for n in "xy"),
            columns=("v",),
            levels=(1,),
        )
        for s in "ab"
    )
    dataflow = SharedDataflow(
        levels=1,
        streams=("a", "b"),
        feeds=feeds,
        relations=tuple(replace(one, streams=("a", "b")) for one in wide),
        joins=(join,),
    )
    dataflow = replace(dataflow, tails=(ending(1, "ab", "ab"),))
    batches = [{"a": [row(0, 1), row(0, 2, y=2), row(0, 3, y=None)]}, {"b": [row(0, 4), row(0, 5, y=None)]}]
    assert rows_of(dataflow, batches) == {"q1": [(1, 4)]}


def test_state_follows_the_windows_not_the_stream() -> None:
    dataflow = replace(BASE, tails=(ending(0, "abc", "abc"),))
    batches = [{name: [row(10 * n + k, k, x=k, y=k) for k in range(10)] for name in "abc"} for n in range(60)]
    outcome = run_dataflow(lambda _: dataflow, {"q0": QUERIES["q0"]}, batches)
    for bucket in outcome.buckets.values():
        assert sum(bucket.state_rows.values()) < 160
        assert len(bucket.persisted()) < 30
        assert 0 < bucket.used_bytes <= bucket.nbytes


def test_a_chunk_without_its_columns_is_refused_by_name() -> None:
    dataflow = replace(BASE, tails=(ending(1, "ab", "ab"),))
    short = pa.record_batch({TS: pa.array([0]), "x": pa.array([1]), "v": pa.array([7])})
    with pytest.raises(DataError, match=r"a chunk of a\.x lacks the columns y"):
        list(SharedBucket(dataflow, 1).step({"a.x": [short]}, {}, {}, 0))


def test_more_streams_than_bits_are_refused() -> None:
    dataflow = replace(BASE, streams=tuple(f"s{n}" for n in range(64)))
    with pytest.raises(ValueError, match="63 streams and sets of them at most"):
        list(SharedBucket(dataflow, 1).step({}, {}, {}, 0))


def test_rows_are_routed_as_the_grid_routes_them() -> None:
    batch = pa.record_batch({"k": pa.array([1, None, 2, 1, 3])})
    routed = route_rows(batch, "k", 3)
    assert sum(part.num_rows for _, part in routed) == 4
    for bucket, part in routed:
        hashes = hashing.hash_column(part.column("k")).tolist()
        assert {coordinate(one, 3) for one in hashes} == {bucket}
    assert route_rows(batch.slice(1, 1), "k", 3) == []
