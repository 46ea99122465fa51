"""What has no bound is refused in a shared dataflow, and the words say what to write instead."""

from __future__ import annotations

import pytest

from tests.sql.binding.test_functions import STREAMS, bind_shared
from watersmeet.errors import SqlError
from watersmeet.sql import bind_query

DEEP = 8
TWICE = "transform(array({}), y -> y || y)[0]"


def nested(pattern: str, depth: int) -> str:
    text = "a.v"
    for _ in range(depth):
        text = pattern.format(text)
    return text


@pytest.mark.parametrize(
    ("written", "problem", "advice"),
    [
        ("aggregate(sequence(1, 60), 'x', (a, x) -> a || a)", "can make a value of any length", "number"),
        ("reduce(a.tags, a.v, (r, x) -> r || r)", "reduce can make a value of any length", "number"),
        ("aggregate(a.tags, CAST('x' AS STRING), (r, x) -> r || r)", "any length", "Start with a number"),
        (nested("hex({})", DEEP), "more than 100 times as long as a column", "stream's source"),
        (nested(TWICE, DEEP), "more than 100 times as long as a column", "stream's source"),
        ("replace(a.v, 'x', a.v)", "the length of one column by that of another", "source"),
        ("regexp_replace(a.v, 'x', a.v)", "multiplies the length", "stream's source"),
        ("array_join(a.tags, a.v)", "multiplies the length", "stream's source"),
        ("transform(a.tags, t -> t || a.v)", "multiplies the length", "stream's source"),
        ("transform(sequence(1, 9000), x -> sequence(1, 9000))", "characters or elements", "smaller numbers"),
        ("transform(sequence(1, 9000), x -> repeat('ab', 9000))", "characters or elements", "smaller"),
        (
            "forall(sequence(1, 9000), x -> forall(sequence(1, 9000), y -> exists(sequence(1, 99), "
            "z -> z = x)))",
            "can take very long",
            "fewer",
        ),
        (
            "exists(sequence(1, 9000), x -> exists(sequence(1, 9000), y -> md5(a.v) = 'x'))",
            "can take very long",
            "fewer",
        ),
        (
            "exists(sequence(1, 9000), x -> exists(sequence(1, 9000), y -> CAST(a.v AS INT) = x + y))",
            "can take very long",
            "fewer",
        ),
        (
            f"levenshtein(a.v, concat({', '.join(['repeat(a.v, 10)'] * 5)}))",
            "can take very long",
            "fewer",
        ),
        ("a.v RLIKE '(x+)+y'", "this pattern can take for ever", "no loop inside a loop"),
        ("a.v REGEXP '(a|aa)*b'", "this pattern can take for ever", "that begin alike"),
        ("rlike(a.v, '(x+)+y')", "this pattern can take for ever", "no loop inside a loop"),
        ("regexp_replace(a.v, '(x+)+y', '')", "this pattern can take for ever", "no loop inside a loop"),
        ("split(a.v, '(x+)+y')", "this pattern can take for ever", "no loop inside a loop"),
        ("str_to_map(a.v, ',', '(x+)+y')", "this pattern can take for ever", "no loop inside a loop"),
        (r"a.v RLIKE '(\\w+)+x'", "this pattern can take for ever", "no loop inside a loop"),
        (r"a.v RLIKE '\(x+)+y'", "this pattern can take for ever", "inside a loop"),  # Spark reads (x+)+y
        (r"a.v RLIKE r'(\w+)+x'", "this pattern can take for ever", "no loop inside a loop"),
        ("a.v RLIKE a.v", "a pattern that is computed", "as one text"),
        ("a.v RLIKE '(x' || '+)+y'", "a pattern that is computed", "as one text"),
        ("parse_url(a.v, 'QUERY', a.v)", "a pattern that is computed", "as one text"),
        ("a.v LIKE a.v", "a pattern that is computed", "as one text"),
        ("a.v LIKE '%a%b%c%d%'", "can take very long", "fewer loops"),
        ("a.v LIKE ANY ('x', '%a%b%c%d%')", "can take very long", "fewer loops"),
        ("repeat('x', 9000) RLIKE 'x*x*y'", "can take very long", "fewer loops"),
        ("exists(a.tags, t -> t RLIKE '.*x.*y')", "can take very long", "fewer loops"),
    ],
)  # fmt: skip
def test_what_has_no_bound_is_refused_where_many_share_a_server(
    written: str, problem: str, advice: str
) -> None:
    for place in ("SELECT {} AS x FROM s AS a", "SELECT a.k FROM s AS a WHERE concat({}, '') <> 'x'"):
        text = place.format(written)
        with pytest.raises(SqlError) as refused:
            bind_shared(text)
        assert problem in str(refused.value)
        assert advice in str(refused.value)
        bind_query(text, STREAMS)  # one's own server is one's own


@pytest.mark.parametrize(
    "written",
    [
        "aggregate(a.tags, 0, (n, t) -> n + length(t))",
        "aggregate(a.tags, named_struct('n', 0, 's', CAST(0 AS DOUBLE)), "
        "(r, t) -> named_struct('n', r.n + 1, 's', r.s + length(t)), r -> r.s / r.n)",
        "transform(a.tags, t -> upper(t))",
        "transform(a.tags, (t, i) -> concat_ws('-', t, i))",
        "filter(a.tags, t -> t = a.v)",
        "filter(a.tags, t -> sha2(t, 256) = md5(a.v))",
        "exists(sequence(1, 1000), x -> exists(sequence(1, 1000), y -> abs(x - y) > a.k))",
        "array_sort(a.tags, (l, r) -> length(l) - length(r))",
        "zip_with(a.tags, sequence(1, 100), (t, n) -> t || n)",
        "transform(split(a.v, ','), t -> trim(t))",
        "a.v RLIKE '^[A-Z]{2}[0-9]+$' AND a.v NOT LIKE '%test%'",
        r"regexp_extract(a.v, '(\\d+)-(\\d+)', 2)",
        r"regexp_replace(a.v, r'\s+', ' ')",
        "replace(replace(a.v, 'a', 'b'), '\"', '\\\\\"')",
        "lpad(repeat('ab', 5000), 9999)",
        "to_json(named_struct('v', a.v, 'tags', a.tags))",
        "coalesce(element_at(a.tags, 1), array_join(a.tags, ', '), hex(a.v))",
        "date_format(a.ts, 'yyyy-MM-dd HH:mm')",
        " || ".join(["a.v"] * 90),
        " OR ".join(f"a.v LIKE 'x{number}%'" for number in range(2_000)),
    ],
)
def test_what_people_write_has_a_bound(written: str) -> None:
    bind_shared(f"SELECT {written} AS x FROM s AS a")


def test_outputs_are_bounded_together() -> None:
    with pytest.raises(SqlError, match="these outputs are too long together"):
        bind_shared(f"SELECT {', '.join(f'repeat(a.v, 100) AS x{n}' for n in range(20))} FROM s AS a")
