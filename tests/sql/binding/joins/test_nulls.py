"""Which conditions cannot be true where an input is missing, and which values are NULL then."""

from __future__ import annotations

import pytest

from watersmeet.oracle.evaluate import evaluate
from watersmeet.query import ColumnRef, Expr
from watersmeet.sql.binding.joins.nulls import is_null_without, rejected_inputs

A, B, C = (ColumnRef(alias, "v") for alias in "abc")
MISSING = {alias: {"v": None} for alias in "abc"}


@pytest.mark.parametrize(
    ("sql", "rejected"),
    [
        ("a.v > 1", "a"),
        ("a.v = b.v", "ab"),
        ("a.v + 1 < b.v * c.v", "abc"),
        ("a.v IS NOT NULL", "a"),
        ("a.v BETWEEN b.v AND c.v - 7", "abc"),
        ("a.v IN (1, 2)", "a"),
        ("CAST(a.v AS STRING) LIKE 'x%'", "a"),
        ("(a.v > 1 OR a.v < 0)", "a"),
        ("(a.v > 1 OR b.v > 1)", ""),
        ("(a.v > 1 AND b.v > 1)", "ab"),
        ("abs(a.v) > 1", "a"),
        ("a.v IS NULL", ""),
        ("NOT a.v > 1", ""),
        ("coalesce(a.v, 0) < 1", ""),
        ("a.v <=> b.v", ""),
        ("(a.v = b.v) IS NOT FALSE", ""),
        ("true", ""),
    ],
)
def test_what_a_condition_rejects(sql: str, rejected: str) -> None:
    condition = Expr(sql, tuple(ref for ref in (A, B, C) if f"{ref.alias}." in sql))
    assert rejected_inputs(condition) == set(rejected)
    for alias in rejected:  # whatever the others are
        for value in (0, 2):
            rows = {**{other: {"v": value} for other in "abc"}, alias: {"v": None}}
            assert evaluate(condition, rows) is not True


@pytest.mark.parametrize(
    ("sql", "is_null"),
    [("a.v", True), ("lower(a.v)", True), ("substring(a.v, 1, 2)", True), ("coalesce(a.v, 0)", False)],
)
def test_which_keys_are_null_where_their_input_is_missing(sql: str, is_null: bool) -> None:
    assert is_null_without(Expr(sql, (A,))) is is_null
    assert (evaluate(Expr(sql, (A,)), MISSING) is None) is is_null
