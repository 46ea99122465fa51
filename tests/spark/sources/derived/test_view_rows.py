"""The rows of views, by Spark: those of the oracle, and beside them, marked, what a view leaves out."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pytest
from pyspark.sql import SparkSession

from watersmeet.kernel import IN_VIEW
from watersmeet.oracle.views import branch_rows
from watersmeet.query import Column, Stream, Table
from watersmeet.query.values import canonical
from watersmeet.spark.sources.derived.view_rows import view_rows, view_tuples
from watersmeet.sql import bind_stream
from watersmeet.testing import declare

pytestmark = pytest.mark.spark

COLUMNS = "`an id` BIGINT, v INT, list ARRAY<INT>, at TIMESTAMP"
BASE = declare("base", COLUMNS, event_time="at")
TABLE = Stream(
    "kinds",
    (Column("the id", "bigint"), Column("name", "string")),
    table=Table(rows=((1, "one"), (1, "uno"), (2, "two"), (None, "none"), (9, None))),
)
VIEWS = [
    "SELECT base.v, k.name FROM base JOIN kinds AS k ON base.`an id` = k.`the id`",
    "SELECT b.*, k.* FROM base AS b LEFT JOIN kinds AS k ON b.`an id` = k.`the id` AND b.v > 1",
    "SELECT k.name, j.name AS other FROM base LEFT JOIN kinds AS k ON `an id` = k.`the id` AND k.name > 'p' "
    "JOIN kinds AS j ON j.`the id` = v - 2",
    "SELECT name, CAST(10 / x.v AS INT) AS w FROM (SELECT * FROM base WHERE v <> 0) AS x "
    "JOIN kinds ON 3 / x.v = `the id` WHERE 10 / x.v > 2 AND name <> 'uno'",
    "SELECT name, explode(list) AS one FROM base LEFT JOIN kinds ON `an id` = `the id`",
    "SELECT * FROM base",
    "SELECT v AS `an id`, `an id` AS v FROM base AS `b c`",
    "SELECT `an id`, v + 1 AS w FROM base WHERE v > 1 AND `an id` <> 2",
    "SELECT `an id`, CAST(10 / v AS INT) AS w FROM (SELECT * FROM base WHERE v <> 0) AS x WHERE 10 / v > 2",
    "SELECT `an id`, explode(list) AS v FROM base",
    "SELECT *, explode_outer(list) AS one FROM base WHERE v > 0",
    "SELECT e.one, `an id` FROM base LATERAL VIEW explode(list) e AS one WHERE e.one > 1",
    "SELECT `an id`, one FROM base LATERAL VIEW OUTER explode(list) e AS one WHERE one > 1 OR one IS NULL",
    "SELECT one, explode(list) AS two FROM (SELECT list, explode(list) AS one FROM base WHERE v = 3) AS x",
]


def _instant(second: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, 12, 0, second, tzinfo=dt.UTC)


def test_spark_and_the_oracle_make_the_same_tuples(spark: SparkSession) -> None:
    drawn = itertools.product((1, 2, None), (0, 3, None), ([], None, [1, 2], [None, 5]))
    rows: list[dict[str, Any]] = [
        {"an id": one, "v": v, "list": items, "at": _instant(n)} for n, (one, v, items) in enumerate(drawn)
    ]
    assert TABLE.table is not None
    sources = {
        "base": spark.createDataFrame([tuple(row.values()) for row in rows], COLUMNS),
        "kinds": spark.createDataFrame(list(TABLE.table.rows), "`the id` BIGINT, name STRING"),
    }
    for sql in VIEWS:
        view = bind_stream("view", sql, [BASE, TABLE])
        (branch,) = view.view
        names = [column.name for column in view.columns]
        expected = [tuple(made[name] for name in names) for row in rows for made in branch_rows(branch, row)]
        tuples = view_tuples(sources, branch)
        assert tuples.columns == names
        assert [field.dataType.simpleString() for field in tuples.schema] == [c.type for c in view.columns]
        found = [tuple(_utc(value) for value in row) for row in tuples.collect()]
        assert sorted(map(repr, map(canonical, found))) == sorted(map(repr, map(canonical, expected))), sql
        assert len(expected) > 1, sql
        everything = view_rows(sources, branch)
        assert (IN_VIEW in everything.columns) == branch.leaves_out, sql
        assert everything.select(view.event_time or "").distinct().count() == len(rows), sql


def _utc(value: Any) -> Any:
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value
