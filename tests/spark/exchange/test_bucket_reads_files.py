"""A bucket that reads its tuples itself takes what a packing task would have sent it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.kernel import NO_HOT_VALUES, Grid, HotTable, HotValue, JoinLayout, plan_bucket
from watersmeet.kernel.columns.hashing import hash_column
from watersmeet.query import Column, Stream
from watersmeet.spark.exchange.hot_keys import HotKeys
from watersmeet.spark.exchange.pack import Pack
from watersmeet.spark.exchange.wire import WireRow
from watersmeet.sql import bind_query

COLUMNS = (Column("k", "bigint"), Column("j", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
CHAIN = bind_query(
    "SELECT a.v AS va, b.v AS vb, c.v AS vc FROM s1 [RANGE 2 SECONDS] AS a, s2 [RANGE 2 SECONDS] AS b, "
    "s3 [RANGE 2 SECONDS] AS c WHERE a.k = b.k AND b.j = c.j",
    [Stream(name, COLUMNS, "ts") for name in ("s1", "s2", "s3")],
)


@dataclass(frozen=True)
class FixedTable(HotKeys):
    """Hot values that are not looked up anywhere."""

    given: ClassVar[HotTable] = NO_HOT_VALUES

    def table(self) -> HotTable:
        return self.given


def _tuples(layout: JoinLayout, alias: str, rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(7)
    drawn = {name: pa.array(random.integers(0, 9, rows)) for name in layout.of(alias).columns}
    null_times = pa.array(np.arange(rows), mask=random.random(rows) < 0.1)
    return pa.RecordBatch.from_pydict(drawn | {"ts": null_times})


@pytest.mark.parametrize("shares", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("is_hot", [False, True])
def test_a_bucket_reads_what_it_would_be_sent(
    shares: tuple[int, int], is_hot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, grid = plan_bucket(CHAIN).layout, Grid(shares)
    value = int(hash_column(pa.array([4]))[0])
    line = HotValue(0, value, "a", 0)
    monkeypatch.setattr(FixedTable, "given", HotTable((line,)) if is_hot else NO_HOT_VALUES)
    labels = tuple(range(10, 10 + grid.buckets))
    for number, item in enumerate(layout.inputs):
        tuples = _tuples(layout, item.alias, 500)
        pack = Pack(number, item, item.columns, grid, labels, FixedTable("", "", (0,)))
        (packed,) = pack(iter([tuples.slice(0, 300), tuples.slice(300)]))
        for bucket, fields in enumerate(packed.to_pylist()):
            sent = WireRow(**fields)
            (read,) = pack.rows_of(bucket, iter([tuples]))
            assert replace(read, read=None) == replace(sent, chunk=b"")
            assert _bag(read.tuples) == _bag(sent.tuples)
            assert read.tuples is None or read.nbytes > 0


def _bag(tuples: pa.RecordBatch | None) -> list[str]:
    return [] if tuples is None else sorted(map(str, tuples.to_pylist()))
