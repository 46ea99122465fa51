"""The naive evaluator: Spark's answers, for the expressions it knows, and a refusal for the others."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from watersmeet.errors import WatersmeetError
from watersmeet.oracle.evaluate import equal, evaluate, evaluate_group
from watersmeet.query import Expr

ROW = {
    "n": None,
    "x": 7,
    "y": -7,
    "d": 2.5,
    "m": Decimal("1.50"),
    "s": "Paris",
    "tags": ["b", None, "a"],
    "spot": {"lat": 1.0, "name": "home"},
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, tzinfo=UTC),
    "ts": 1_000_000,
    "nan": math.nan,
}


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("a.x", 7),
        ("a.spot.name", "home"),
        ("`a`.`x`", 7),
        ("answer_time", 99),
        ("1.5", Decimal("1.5")),
        ("1e2", 100.0),
        (r"'it\'s'", "it's"),
        ("X'FF00'", b"\xff\x00"),
        ("a.x + a.y * 2", -7),
        ("-a.x", -7),
        ("a.x / 2", 3.5),
        ("a.m / 2", Decimal("0.75")),
        ("a.y div 2", -3),
        ("a.y % 4", -3),
        ("a.x + a.n", None),
        ("a.x = 7", True),
        ("a.x <> 7", False),
        ("a.n = a.n", None),
        ("a.n <=> a.n", True),
        ("a.nan = a.nan", True),
        ("a.nan > 1e300", True),
        ("NOT a.n", None),
        ("a.n IS NULL", True),
        ("a.x IS NOT NULL", True),
        ("a.x > 1 AND a.n > 1", None),
        ("a.x > 9 AND a.n > 1", False),
        ("a.x > 1 OR a.n > 1", True),
        ("a.x > 9 OR a.n > 1", None),
        ("a.x IN (1, 7)", True),
        ("a.x IN (1, NULL)", None),
        ("a.x NOT IN (1, 2)", True),
        ("a.x BETWEEN 7 AND 9", True),
        ("a.x BETWEEN 8 AND NULL", False),
        ("a.x BETWEEN NULL AND 9", None),
        ("a.s LIKE 'P_r%'", True),
        ("a.s LIKE 'p%'", False),
        ("a.s RLIKE 'r.s$'", True),
        ("CASE WHEN a.n > 1 THEN 'a' WHEN a.x > 1 THEN 'b' END", "b"),
        ("CASE a.x WHEN 1 THEN 'a' ELSE 'c' END", "c"),
        ("CASE a.x WHEN 1 THEN 'a' END", None),
        ("if(a.n, 1, 2)", 2),
        ("coalesce(a.n, a.x)", 7),
        ("nullif(a.x, 7)", None),
        ("greatest(a.n, a.x, a.y)", 7),
        ("least(a.n, a.x, a.y)", -7),
        ("lower(a.s) || upper('x')", "parisX"),
        ("concat(a.s, a.n)", None),
        ("concat(a.s, a.x)", "Paris7"),
        ("length(a.s)", 5),
        ("substring(a.s, 2, 3)", "ari"),
        ("substring(a.s, -2)", "is"),
        ("abs(a.y)", 7),
        ("round(2.5)", Decimal(3)),
        ("floor(a.d)", 2),
        ("array_sort(a.tags)", ["a", "b", None]),
        ("sort_array(a.tags)", [None, "a", "b"]),
        ("size(a.tags)", 3),
        ("array_contains(a.tags, 'a')", True),
        ("array_contains(a.tags, 'z')", None),
        ("array(2, 1) = array(2, 1)", True),
        ("CAST(a.x AS STRING)", "7"),
        ("CAST('12' AS BIGINT)", 12),
        ("CAST(a.d AS INT)", 2),
        ("CAST('2.345' AS DECIMAL(10, 2))", Decimal("2.35")),
        ("CAST('true' AS BOOLEAN)", True),
        ("a.day = DATE '2024-02-29'", True),
        ("a.at = TIMESTAMP '2024-02-29 00:00:00'", True),
        ("a.ts + INTERVAL 2 SECONDS", 3_000_000),
    ],
)
def test_an_expression_is_worth_what_spark_says(sql: str, value: Any) -> None:
    found = evaluate(Expr(sql), {"a": ROW}, answer_time=99)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("count(*)", 4),
        ("count(a.x)", 3),
        ("count(DISTINCT a.x)", 2),
        ("sum(a.x)", 4),
        ("sum(DISTINCT a.x)", 3),
        ("avg(a.x) * 3", 4.0),
        ("min(a.x) + max(a.x)", 3),
        ("sum(a.n)", None),
        ("a.g", "g"),
        ("CASE WHEN count(*) > 3 THEN answer_time END", 5),
        ("max(a.x + 1)", 3),
    ],
)
def test_aggregates_skip_null_and_sit_inside_expressions(sql: str, value: Any) -> None:
    group = [{"a": {"x": x, "n": None, "g": "g"}} for x in (1, 1, 2, None)]
    assert evaluate_group(Expr(sql), group, answer_time=5) == value


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("sha2(a.s, 256)", "cannot evaluate .*sha2.*knows no SHA2"),
        ("my_function(a.s)", "cannot evaluate .*my_function"),
        ("a.nothing", "no column a.nothing"),
        ("b.x", "no column b.x"),
        ("a.x / 0", "division by zero"),
        ("CAST('seven' AS INT)", "cannot cast 'seven'"),
        ("CAST(a.x AS INTERVAL)", "cannot cast to INTERVAL"),
        ("sum(a.x)", "needs a group"),
    ],
)
def test_what_it_does_not_know_it_refuses(sql: str, reason: str) -> None:
    with pytest.raises(WatersmeetError, match=f"(?i){reason}"):
        evaluate(Expr(sql), {"a": ROW})


def test_null_equals_nothing() -> None:
    assert equal(None, None) is None
    assert equal(None, 1) is None
    assert equal(1, 2) is False
