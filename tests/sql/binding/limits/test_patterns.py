"""How long a regular expression can take is told from it, and what cannot be told has no bound."""

from __future__ import annotations

import random
import re

import pytest

from watersmeet.sql.binding.limits.patterns import MOST_CHOICES, difficulty_of, difficulty_of_like
from watersmeet.sql.binding.limits.spark_text import read_text


@pytest.mark.parametrize(
    ("pattern", "power"),
    [
        ("error", 1), ("(?i)error|warning", 1), (r"\bfoo\b", 1), (r"^\d+\.\d+\.\d+$", 1),
        ("^[a-z]+=[0-9]+$", 1),
        ('^"[^"]*"$', 1), ("(ab|cd)+", 1), ("^[^,]*,[^,]*,[^,]*$", 1), ("a{3}", 1),
        ("x*y", 2), (r"(\w+)@(\w+)\.(\w+)", 2), ("(?<day>[0-9]+)-(?<month>[0-9]+)", 2), ("a+$|b", 2),
        ("^.*a.*b", 2),
        (".*a.*b", 3), ("x*x*x*y", 4), ("(?i)a*A*1", 3),
    ],
)  # fmt: skip
def test_each_loop_that_can_take_the_characters_of_another_adds_to_the_power(
    pattern: str, power: int
) -> None:
    found = difficulty_of(pattern)
    assert found is not None
    assert found.power == power


@pytest.mark.parametrize(
    "pattern",
    [
        "(x+)+y", "(a|a)*b", "(a|ab)*c", "(a?)*b", "(a*)*", "(.*,)*x", "((ab)+c)+", "(?:a{2,3})+",
        "(a{1,3}){2,}",
        "a?" * 30 + "a", "(a|b|ab)" * 20, r"(.)\1", "(?=a)b", "(?>a)", "(?x)a # b", r"\p{L}+", "[a&&b]",
        "[[a]b]",
        r"\Qa\E", "(", ")", "*", "a**", "[", "a{", "a{x}", "\\",
    ],
)  # fmt: skip
def test_what_can_take_for_ever_or_is_not_understood_has_no_bound(pattern: str) -> None:
    assert difficulty_of(pattern) is None


def test_the_ways_that_choices_make_are_counted() -> None:
    found = difficulty_of("a?" * 8 + "(b|c)")
    assert found is not None
    assert found.choices == 2**9
    assert found.steps(10) == 2**9 * 10
    assert difficulty_of(f"a{{1,{MOST_CHOICES + 1}}}") is None


@pytest.mark.parametrize(
    ("pattern", "power"), [("x%", 1), ("%x", 1), ("%x%", 1), ("a_%b%", 1), ("%a%b%", 2), ("%a%b%c%d", 4)]
)
def test_each_percent_but_the_last_is_a_loop(pattern: str, power: int) -> None:
    assert difficulty_of_like(pattern).power == power


def test_patterns_of_low_power_are_matched_at_once() -> None:
    """Random patterns that count as easy, on texts made to be hard; one in error would not end."""
    random_, tried = random.Random(4), 0
    atoms = ("a", "b", ".", "[ab]", "[^a]", "\\w", "(ab|cd)", "(a|b)")
    while tried < 200:
        pattern = "".join(
            random_.choice(atoms) + random_.choice(("", "", "*", "+", "?", "{2}", "{1,3}"))
            for _ in range(random_.randrange(1, 7))
        )
        found = difficulty_of(pattern)
        if found is not None and found.steps(60) < 1e6:
            tried += 1
            for text in ("a" * 60 + "!", "ab" * 30 + "!", "b" * 60):
                re.search(f"{pattern}#", text)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"'a\\d'", r"a\d"), (r"'a\d'", "ad"), (r"r'a\d'", r"a\d"), ('"x"', "x"), (r"'\(a\)'", "(a)"),
        (r"'it\'s'", "it's"), (r"'\u0041\101'", "AA"), ("'a' 'b'", None), ("'a''b'", None), ("a.b", None),
        ("", None),
        ("r'a' 'b'", None),
    ],
)  # fmt: skip
def test_a_text_is_read_as_spark_reads_it(written: str, text: str | None) -> None:
    assert read_text(written) == text
