"""Which conditions a shared dataflow tests itself, and which it leaves to Spark."""

from __future__ import annotations

import pytest

from watersmeet.plan.multiquery.exact_tests import exact_tests
from watersmeet.query import Expr
from watersmeet.query.shared_dataflow import Test as Comparison

TYPES = {
    "a.tiny": "tinyint",
    "a.n": "int",
    "a.big": "bigint",
    "b.big": "bigint",
    "a.s": "string",
    "b.s": "string",
    "a.flag": "boolean",
    "b.flag": "boolean",
    "a.day": "date",
    "a.at": "timestamp",
    "b.at": "timestamp",
    "a.local": "timestamp_ntz",
    "a.x": "double",
    "a.price": "decimal(10,2)",
    "a.short": "varchar(3)",
}


def taken_from(text: str) -> tuple[Comparison, ...] | None:
    def resolve(alias: str, column: str) -> tuple[str, str] | None:
        name = f"{alias}.{column}"
        return (name, TYPES[name]) if name in TYPES else None

    return exact_tests(Expr(text), resolve)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.big = 5", [("a.big", "=", 5)]),
        ("5 < a.big", [("a.big", ">", 5)]),
        ("-7 >= a.n", [("a.n", "<=", -7)]),
        ("a.tiny != 127", [("a.tiny", "<>", 127)]),
        ("(a.big <> 9223372036854775807)", [("a.big", "<>", 2**63 - 1)]),
        ("a.big BETWEEN 1 AND 5", [("a.big", ">=", 1), ("a.big", "<=", 5)]),
        ("a.s = 'paris'", [("a.s", "=", "paris")]),
        ("a.s >= 'é'", [("a.s", ">=", "é")]),
        ("a.flag", [("a.flag", "=", True)]),
        ("NOT a.flag", [("a.flag", "=", False)]),
        ("a.flag = FALSE", [("a.flag", "=", False)]),
        ("a.day < DATE '1970-01-02'", [("a.day", "<", 1)]),
        ("a.at >= TIMESTAMP '1970-01-01 00:00:01Z'", [("a.at", ">=", 1_000_000)]),
        ("a.at >= TIMESTAMP '1970-01-01T01:00:00.000001+01:00'", [("a.at", ">=", 1)]),
        ("a.local = TIMESTAMP_NTZ '1970-01-01 00:00:00.5'", [("a.local", "=", 500_000)]),
    ],
)
def test_comparisons_with_a_literal_of_the_same_kind_are_exact(
    text: str, expected: list[tuple[str, str, int | str | bool]]
) -> None:
    assert taken_from(text) == tuple(Comparison(*each) for each in expected)


@pytest.mark.parametrize(
    ("text", "column", "op", "other"),
    [
        ("a.big <= b.big", "a.big", "<=", "b.big"),
        ("b.big <= a.big", "a.big", ">=", "b.big"),
        ("a.n < b.big", "a.n", "<", "b.big"),
        ("b.s = a.s", "a.s", "=", "b.s"),
        ("a.at > b.at", "a.at", ">", "b.at"),
        ("a.flag <> b.flag", "a.flag", "<>", "b.flag"),
    ],
)
def test_comparisons_of_columns_of_one_family_are_exact(text: str, column: str, op: str, other: str) -> None:
    assert taken_from(text) == (Comparison(column, op, other=other),)


@pytest.mark.parametrize(
    "text",
    [
        "a.x > 1.5",
        "a.x = a.x",
        "a.price = 2",
        "a.big = 5.0",
        "a.big = 5L",
        "a.big = '5'",
        "a.big > 9223372036854775808",
        "a.tiny = 128",
        "a.big + 1 > 2",
        "a.big = a.s",
        "a.big <=> 5",
        "a.big IN (1, 2)",
        "a.big IS NULL",
        "a.big = 1 OR a.big = 2",
        "a.big = NULL",
        "a.s = 'it\\'s'",
        "a.s LIKE 'p%'",
        "a.short = 'abc'",
        "a.flag > FALSE",
        "a.flag < b.flag",
        "a.day = '2024-01-01'",
        "a.day = DATE '2024-1-1'",
        "a.day = TIMESTAMP '2024-01-01 00:00:00Z'",
        "a.at = DATE '2024-01-01'",
        "a.at >= TIMESTAMP '2024-01-01 00:00:00'",  # depends on the session's time zone
        "a.local >= TIMESTAMP '2024-01-01 00:00:00Z'",
        "a.local > a.at",
        "a.at = a.day",
        "a.s.big = 5",
        "a.big BETWEEN 1 AND 2.5",
        "1 = 1",
        "not a.big = 5",
        "this is ( no expression",
    ],
)
def test_everything_else_is_left_to_spark(text: str) -> None:
    assert taken_from(text) is None
