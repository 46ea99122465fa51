"""What a query may call: nothing that reaches the JVM, and in a shared dataflow nothing of the server's."""

from __future__ import annotations

import pytest

from watersmeet.errors import SqlError
from watersmeet.sql import bind_query, bind_select, parse_pipeline, parse_statements
from watersmeet.sql.binding.functions import MAKING_ROWS, OF_THE_SERVER, REACHING
from watersmeet.sql.binding.spark_functions import SPARK_FUNCTIONS

STREAMS = parse_pipeline(
    "CREATE STREAM s (k BIGINT, v STRING, tags ARRAY<STRING>, ts TIMESTAMP) "
    "WITH (format = 'parquet', path = 's', event_time = 'ts');"
).streams

PLACES = (
    "SELECT {} AS x FROM s [ROWS 5] AS a, s AS b WHERE a.k = b.k",
    "SELECT a.k FROM s [ROWS 5] AS a, s AS b WHERE a.k = b.k AND {} = 'x'",
    "SELECT a.k FROM s [ROWS 5] AS a, s AS b WHERE a.k = b.k AND concat(a.v, {}) < b.v",
    "SELECT a.k FROM s [ROWS 5] AS a JOIN s AS b ON a.v = {} AND a.k = b.k",
    "SELECT {} AS x, count(*) AS n FROM s [RANGE 1 HOUR] AS a GROUP BY {}",
    "SELECT a.k, count(*) AS n FROM s [RANGE 1 HOUR] AS a GROUP BY a.k HAVING max({}) = 'x'",
)


def bind_shared(text: str) -> None:
    (select,) = parse_statements(text).selects
    bind_select(select, {stream.name: stream for stream in STREAMS}, shared=True)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "name",
    [
        "reflect", "java_method", "TRY_REFLECT", "`reflect`", "system.builtin.reflect",
        "builtin . `Reflect` ",
        "SYSTEM.`builtin`./* hidden */Java_Method /* away */\n", "identifier('reflect')", '"reflect"',
    ],
)  # fmt: skip
def test_no_query_reaches_the_jvm(name: str, place: str) -> None:
    call = f"upper({name}('java.lang.System', 'getenv', a.v))"
    for bind in (lambda text: bind_query(text, STREAMS), bind_shared):
        with pytest.raises(SqlError, match=r"is not allowed|expected \)"):
            bind(place.format(call, call))


@pytest.mark.parametrize(
    "call", ["explode(a.tags)", "posexplode(a.tags)", "stack(2, 1, 2)", "Inline(a.tags)"]
)
def test_an_answer_stays_one_row(call: str) -> None:
    with pytest.raises(SqlError, match="an answer is one row"):
        bind_query(f"SELECT {call} AS x FROM s AS a", STREAMS)
    with pytest.raises(SqlError, match="an answer is one row"):
        bind_query("SELECT window(a.ts, '10 minutes', '5 minutes') AS x FROM s AS a", STREAMS)
    bind_query("SELECT window(a.ts, '10 minutes') AS x FROM s AS a", STREAMS)


@pytest.mark.parametrize("name", sorted(OF_THE_SERVER))
def test_a_shared_dataflow_tells_nothing_of_its_server(name: str) -> None:
    for written in (name, f"`{name}`", name.upper()):
        with pytest.raises(SqlError, match="a shared dataflow serves many"):
            bind_shared(f"SELECT {written}() AS x FROM s AS a")


def test_functions_without_parentheses_are_found_and_columns_of_their_name_are_not() -> None:
    with pytest.raises(SqlError, match="current_user is not allowed"):
        bind_shared("SELECT CURRENT_USER AS x FROM s AS a")
    people = parse_pipeline("CREATE STREAM p (user STRING, version INT) WITH (format = 'rate')").streams
    (select,) = parse_statements("SELECT p.user, version AS reflect FROM p WHERE user IN ('x')").selects
    bind_select(select, {"p": people[0]}, shared=True)


@pytest.mark.parametrize(
    "call", ["my_function(a.v)", "db.f(a.v)", "system.builtin.upper(a.v)", "`uper`(a.v)"]
)
def test_ones_own_functions_are_for_ones_own_session(call: str) -> None:
    bind_query(f"SELECT {call} AS x FROM s AS a", STREAMS)
    with pytest.raises(SqlError, match="is not one of Spark's own functions"):
        bind_shared(f"SELECT {call} AS x FROM s AS a")


@pytest.mark.parametrize(
    "call",
    [
        "repeat(a.v, 2000000000)", "repeat(a.v, a.k)", "`REPEAT`(a.v, 99999999999999)", "space(1e9)",
        "lpad(a.v, 10001)",
        "rpad('x', a.k, '-')", "sequence(1, 1000000000)", "sequence(1, a.k)", "array_repeat(1, 2147483647)",
        "repeat(repeat(a.v, 10000), 10000)", "printf('%2000000000d', 1)",
        "format_number(1.5, 1000000000)", "format_string(concat('%', '99999d'), 1)", "format_string(a.v, 1)",
        "array_insert(a.tags, 2000000000, 'x')", "repeat(a.v, 101)",
    ],
)  # fmt: skip
def test_a_shared_dataflow_makes_no_text_of_any_length(call: str) -> None:
    with pytest.raises(SqlError, match="in a shared dataflow"):
        bind_shared(f"SELECT {call} AS x FROM s AS a")
    bind_query(f"SELECT {call} AS x FROM s AS a", STREAMS)


@pytest.mark.parametrize(
    "written",
    [
        "CASE WHEN (a.k > 1) AND NOT (a.k IN (1, 2)) OR (a.v LIKE ('x%')) THEN (1) ELSE (2) END",
        "CAST(a.v AS DECIMAL(10, 2)) + (a.k) DIV (2)",
        "transform(a.tags, (x, i) -> (x || (i)))",
        "a.tags[(0)]",
        "sum(a.k) FILTER (WHERE (a.k) BETWEEN (1) AND (2))",
        "EXTRACT(YEAR FROM (a.ts)) + TIMESTAMPDIFF(HOUR, a.ts, a.ts)",
        "TRIM(BOTH (' ') FROM (a.v))",
        "substring(a.v FROM (1) FOR (2))",
        "lpad(a.v, 20, '0') || format_string('%05d', a.k)",
        "a.ts - INTERVAL (5) MINUTES",
        "a.v RLIKE ('x') IS DISTINCT FROM (true)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY (a.k))",
        "size(sequence(-5, 5))",
    ],
)
def test_what_people_write_is_taken_in_a_shared_dataflow(written: str) -> None:
    bind_shared(f"SELECT {written} AS x FROM s [RANGE 1 HOUR] AS a WHERE (a.k) = (a.k) AND (a.v) <> ('y')")


def test_the_lists_are_of_functions_that_there_are() -> None:
    assert set(REACHING) - {"identifier"} | MAKING_ROWS | set(OF_THE_SERVER) <= SPARK_FUNCTIONS
