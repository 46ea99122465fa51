"""The bench of outer joins: the query is what it is called, and engines that differ are not compared."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from watersmeet.bench.outer import LEFT3, OuterFigures, as_table, bench_outer, check_agreement
from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.query import JoinKind
from watersmeet.query.join_tree import meeting_class, nodes


def test_the_query_is_two_left_joins_on_one_key() -> None:
    query = LEFT3.query
    assert query.tree is not None
    assert [node.kind for node in nodes(query.tree)] == [JoinKind.LEFT] * 2
    assert meeting_class(query.graph, query.tree) is not None


def test_no_tuple_is_at_the_epoch_which_spark_takes_for_late() -> None:
    table = LEFT3.table(np.random.default_rng(0), 0, 0, 3)
    assert [value.timestamp() for value in table["ts"].to_pylist()] == [1000.0, 1000.001, 1000.002]


def test_engines_that_differ_are_not_compared(tmp_path: Path) -> None:
    for engine, last in (("ours", 3), ("spark", 4)):
        (tmp_path / engine / "answers").mkdir(parents=True)
        sql = f"SELECT n AS size_a, make_timestamp(n * 1000000) AS answer_time FROM range({last}) AS t (n)"
        duckdb.connect().execute(f"COPY ({sql}) TO '{tmp_path}/{engine}/answers/0.parquet' (FORMAT parquet)")
    check_agreement(tmp_path, ("ours", "inner", "spark"), before_us=3_000_000)
    with pytest.raises(WatersmeetError, match=r"differ up to 4000000 us \(ours 3, spark 4\)"):
        check_agreement(tmp_path, ("ours", "inner", "spark"), before_us=4_000_000)


def test_the_table_says_how_fast_ours_is_beside_each() -> None:
    figures = [
        OuterFigures(engine=engine, rows_per_s=rows_per_s, p50_ms=1, peak_memory_bytes=1, answers=1)
        for engine, rows_per_s in (("ours", 80.0), ("inner", 100.0), ("spark", 8.0))
    ]
    assert list(as_table(figures).columns[-1].cells) == ["", "0.80x as fast", "10.00x as fast"]


def test_an_unknown_engine_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigurationError, match="there is no engine fast; there are ours, inner, spark"):
        bench_outer(batch_rows=10, batches=4, warm_up_s=0, engines=["fast"])
