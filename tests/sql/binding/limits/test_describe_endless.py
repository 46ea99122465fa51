"""Who runs a query alone is warned of what may exhaust Spark, and of nothing else."""

from __future__ import annotations

import pytest

from watersmeet.sql.binding.limits.describe_endless import describe_endless


@pytest.mark.parametrize(
    ("expression", "warning"),
    [
        ("aggregate(sequence(1, 60), 'x', (a, x) -> a || a)", "can make a value of any length"),
        ("upper(reduce(a.tags, a.v, (r, x) -> r || x))", "can make a value of any length"),
        ("a.v RLIKE '(x+)+y'", "may take for ever"),
        ("length(regexp_replace(a.v, '(a|aa)*b', ''))", "may take for ever"),
        ("NOT (a.v REGEXP '(x*)*y')", "may take for ever"),
    ],
)
def test_what_grows_or_takes_without_a_bound_is_named(expression: str, warning: str) -> None:
    (line,) = describe_endless([expression, expression, "a.k"])
    assert warning in line


@pytest.mark.parametrize(
    "expression",
    [
        "aggregate(a.tags, 0, (n, t) -> n + length(t))", "a.v RLIKE '^[a-z]+$'", "a.v RLIKE a.v",
        r"a.v RLIKE '(?=x)(\\w)\\1'", "a.v LIKE '%a%b%c%d%'", "repeat(a.v, 1000000)", "my_function(a.v, 'x')",
        "not SQL at all (", "a.v RLIKE '(?>x+)+y'",
    ],
)  # fmt: skip
def test_the_rest_is_the_authors_own(expression: str) -> None:
    assert describe_endless([expression]) == ()
