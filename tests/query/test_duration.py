"""Durations: every unit, every spelling, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.query import format_duration, parse_duration
from watersmeet.query.duration import SPELLINGS, UNITS_US, unit_us


@pytest.mark.parametrize(
    ("unit", "spelling"), [(unit, word) for unit, words in SPELLINGS.items() for word in words]
)
def test_every_spelling_of_a_unit_is_read_in_any_case(unit: str, spelling: str) -> None:
    for written in (f"3 {spelling}", f"3{spelling.upper()}", f" 3  {spelling.title()} "):
        assert parse_duration(written) == 3 * UNITS_US[unit]


@pytest.mark.parametrize(
    ("text", "duration_us"),
    [
        ("0", 0),
        ("0 s", 0),
        ("1 min 30 s", 90_000_000),
        ("1.5 min", 90_000_000),
        ("0.25ms", 250),
        ("1h1us", 3_600_000_001),
    ],
)
def test_durations_add_up(text: str, duration_us: int) -> None:
    assert parse_duration(text) == duration_us


@pytest.mark.parametrize(
    "text", ["", "  ", "5", "5 parsecs", "s", "-5 s", "five s", "5 s and", "0.1 us", "5 months"]
)
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|microsecond"):
        parse_duration(text)


def test_a_word_that_is_no_unit_has_no_length() -> None:
    assert unit_us("parsec") is None
    assert unit_us("MINUTES") == 60_000_000


@given(st.integers(0, 10**15))
def test_a_formatted_duration_reads_back(duration_us: int) -> None:
    assert parse_duration(format_duration(duration_us)) == duration_us


def test_durations_are_formatted_in_the_largest_exact_unit() -> None:
    assert [format_duration(us) for us in (0, 1, 1_500, 90_000_000, 600_000_000)] == [
        "0 s",
        "1 us",
        "1500 us",
        "90 s",
        "10 min",
    ]
