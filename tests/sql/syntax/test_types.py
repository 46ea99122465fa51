"""Types: what compares with what, and what a cast may lose."""

from __future__ import annotations

import itertools

import pytest

from watersmeet.sql.syntax.types import comparison_type, is_exact_cast

FAMILIES = (
    ("tinyint", "smallint", "int", "bigint", "decimal(10,2)", "decimal(38,38)", "float", "double"),
    ("string", "varchar(10)", "char(3)"),
    ("date", "timestamp", "timestamp_ntz"),
    ("boolean",),
    ("binary",),
    ("array<int>",),
    ("struct<a:int>",),
)


def test_types_compare_within_their_family_alone() -> None:
    for one, other in itertools.product(FAMILIES, repeat=2):
        for left, right in itertools.product(one, other):
            assert (comparison_type(left, right) is not None) == (one is other), (left, right)


def test_comparison_is_symmetric_and_a_type_compares_as_itself() -> None:
    for family in FAMILIES:
        for left, right in itertools.combinations(family, 2):
            assert comparison_type(left, right) == comparison_type(right, left)
    assert comparison_type("decimal(10,2)", "decimal(10,2)") == "decimal(10,2)"
    assert comparison_type("map<string,int>", "map<string,int>") is None


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("decimal(10,2)", "decimal(5,4)", "decimal(12,4)"),
        ("bigint", "decimal(38,18)", "decimal(38,18)"),
        ("decimal(38,0)", "decimal(38,38)", "decimal(38,0)"),
        ("float", "int", "double"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
    ],
)
def test_what_a_comparison_casts_to(left: str, right: str, common: str) -> None:
    assert comparison_type(left, right) == common


def test_what_a_cast_may_lose() -> None:
    assert is_exact_cast("int", "double")
    assert is_exact_cast("int", "decimal(12,2)")
    assert is_exact_cast("date", "timestamp")
    assert not is_exact_cast("bigint", "double")
    assert not is_exact_cast("decimal(10,2)", "double")
    assert not is_exact_cast("timestamp_ntz", "timestamp")
    assert not is_exact_cast("decimal(10,4)", "decimal(38,2)")
