"""Binding: what the parts of a query become."""

from __future__ import annotations

import pytest

from watersmeet.errors import SqlError
from watersmeet.query import Column, ColumnRef, Query, Stream
from watersmeet.sql import bind_query

COLUMNS = (
    "A bigint, B int, X double, D decimal(10,2), s string, d8 date, ts timestamp, f boolean, ss array<string>"
)
STREAMS = [
    Stream(name, tuple(Column(*column.split(" ")) for column in COLUMNS.split(", ")), "ts") for name in "RSTU"
]


def bind(conditions: str, tables: str = "R, S, T", select: str = "R.A") -> Query:
    return bind_query(f"SELECT {select} FROM {tables} WHERE {conditions}", STREAMS)


def classes(query: Query) -> list[tuple[str, str | None]]:
    return [(cls.pretty(), cls.type) for cls in query.graph.classes]


def test_comma_and_join_on_mean_the_same() -> None:
    comma = bind("R.A = S.A AND S.B = T.B AND R.A > 5")
    joins = bind("R.A > 5", "R JOIN S ON R.A = S.A INNER JOIN T ON S.B = T.B")
    nested = bind("R.A > 5", "R JOIN S JOIN T ON S.B = T.B ON R.A = S.A")
    for query in (joins, nested):
        assert (query.inputs, query.graph.aliases) == (comma.inputs, comma.graph.aliases)
        assert set(query.graph.classes) == set(comma.graph.classes)


def test_names_ignore_case_and_come_out_as_declared() -> None:
    query = bind_query("select R.a, x1.S from r, S as X1 where r.a = x1.A", STREAMS)
    assert query.graph.classes[0].pretty() == "R.A = X1.A"
    assert [output.name for output in query.select] == ["A", "s"]


def test_columns_of_an_expression_are_known() -> None:
    query = bind("R.A = S.A AND S.A = T.A AND R.B + S.B > T.B", select="lower(R.s) || T.s AS x")
    assert query.residual[0].columns == (ColumnRef("R", "B"), ColumnRef("S", "B"), ColumnRef("T", "B"))
    assert query.select[0].expr.aliases == ("R", "T")
    assert query.graph.classes[0].attributes[0].expr.is_column


@pytest.mark.parametrize(
    ("equality", "compared"),
    [
        ("R.A = S.B", "bigint"),
        ("R.B = S.D", "decimal(12,2)"),
        ("R.A = S.D", "decimal(22,2)"),
        ("R.D = S.X", "double"),
        ("R.d8 = S.ts", "timestamp"),
        ("R.s = S.s", "string"),
        ("R.f = S.f", "boolean"),
        ("R.ss = S.ss", "array<string>"),
        ("R.B + 1 = S.B", "bigint"),
        ("CAST(R.s AS INT) = S.B", "int"),
        ("R.ts + INTERVAL 1 DAY = S.ts", None),
        ("some_udf(R.A) = S.A", None),
    ],
)
def test_an_equality_compares_as_spark_would(equality: str, compared: str | None) -> None:
    assert classes(bind(equality, "R, S"))[0][1] == compared


def test_an_equality_stricter_than_its_class_stays_as_residual() -> None:
    query = bind("R.A = S.A AND S.A = T.X")
    assert classes(query) == [("R.A = S.A = T.X", "double")]
    assert [expr.sql for expr in query.residual] == ["R.A = S.A"]
    assert bind("R.B = S.B AND S.B = T.X").residual == ()  # a double holds every int


def test_equalities_of_unknown_type_stay_as_residual_when_there_are_several() -> None:
    query = bind("f(R.A) = S.A AND S.A = T.A")
    assert classes(query) == [("f(R.A) = S.A = T.A", None)]
    assert [expr.sql for expr in query.residual] == ["f(R.A) = S.A", "S.A = T.A"]


def test_two_attributes_of_one_input_in_a_class_are_a_filter() -> None:
    query = bind("R.A = S.A AND S.A = R.B AND R.B = T.B")
    assert classes(query) == [("R.A = S.A = T.B", "bigint")]
    assert [expr.sql for expr in query.input("R").filters] == ["R.A = R.B"]


def test_such_a_filter_asks_no_more_than_the_class_does() -> None:
    query = bind("R.A = S.X AND S.X = R.D", "R, S")
    assert [expr.sql for expr in query.input("R").filters] == ["CAST(R.A AS DOUBLE) = CAST(R.D AS DOUBLE)"]


def test_spellings_of_one_expression_are_one_attribute() -> None:
    query = bind("LOWER( R.s ) = S.s AND lower(r.S) = T.s")
    assert classes(query) == [("LOWER(R.s) = S.s = T.s", "string")]
    strings = bind("concat(R.s, 'a') = S.s AND concat(R.s, 'A') = T.s")
    assert len(strings.graph.classes) == 2


def test_a_chain_joins_filters_and_compares() -> None:
    query = bind("R.A = S.A = T.A = 5 AND 'x' = R.s")
    assert classes(query) == [("R.A = S.A = T.A", "bigint")]
    assert [expr.sql for expr in query.input("T").filters] == ["T.A = 5"]
    assert [expr.sql for expr in query.input("R").filters] == ["'x' = R.s"]


def test_conditions_that_join_nothing_are_filters_or_residual() -> None:
    query = bind(
        "R.A = S.A AND (R.B = S.B OR R.B > 3) AND (R.s = 'a' OR R.s = 'b') AND 1 = 1"
        " AND R.ts < answer_time AND R.B + S.B = S.A AND R.A BETWEEN 1 AND S.A AND NOT R.f",
        "R, S",
    )
    assert [expr.sql for expr in query.input("R").filters] == ["(R.s = 'a' OR R.s = 'b')", "NOT R.f"]
    assert [expr.sql for expr in query.residual] == [
        "(R.B = S.B OR R.B > 3)",
        "1 = 1",
        "R.ts < answer_time",
        "(R.B + S.B) = S.A",
        "R.A BETWEEN 1 AND S.A",
    ]
    assert query.residual[2].uses_answer_time


def test_every_condition_can_stand_between_ands() -> None:
    query = bind("R.A = S.A AND (R.B = 1 OR S.B = 2 AND R.f) AND (R.f OR R.B = 2)", "R, S")
    for expr in (*query.residual, *query.input("R").filters):
        assert expr.sql.startswith("(")
        assert expr.sql.endswith(")")


def test_using_makes_columns_one() -> None:
    query = bind_query("SELECT A, R.B FROM R JOIN S USING (a) JOIN T USING (A)", STREAMS)
    assert classes(query) == [("R.A = S.A = T.A", "bigint")]
    assert query.select[0].expr.sql == "R.A"


def test_answer_names() -> None:
    query = bind("R.A = S.A", "R, S", "R.B, S.B, R.A AS one, R.A + 1")
    assert [output.name for output in query.select] == ["R_B", "S_B", "one", "A + 1"]
    query = bind("R.A = S.A", "R, S", "lower(R.s), lower(S.s)")
    assert [output.name for output in query.select] == ["lower(R.s)", "lower(S.s)"]


def test_group_by_takes_columns_names_and_places() -> None:
    text = "SELECT lower(s) AS l, B, count(*) FROM R [ROWS 9] GROUP BY l, {} HAVING count(*) > 1 AND l != ''"
    text += " EMIT EVERY 1 MIN"
    for key in ("B", "r.b", "2"):
        query = bind_query(text.format(key), STREAMS)
        assert query.aggregate is not None
        assert [expr.sql for expr in query.aggregate.group_by] == ["lower(R.s)", "R.B"]
        assert query.aggregate.having is not None
        assert query.aggregate.having.sql == "count(*) > 1 AND (lower(R.s)) != ''"


@pytest.mark.parametrize(
    "aggregate",
    [
        "sum(A)",
        "SUM(DISTINCT A)",
        "count(*)",
        "count(DISTINCT A, B)",
        "sum(A) FILTER (WHERE B > 1)",
        "first(A) IGNORE NULLS",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY A)",
        "1 + max(A) / min(B)",
        "array_sort(collect_list(s))",
        "any(f)",
        "bool_and(f)",
    ],
)
def test_aggregates_are_known(aggregate: str) -> None:
    query = bind_query(f"SELECT {aggregate} FROM R [RANGE 10 MIN]", STREAMS)
    assert query.aggregate is not None


def test_sixteen_streams_join() -> None:
    tables = ", ".join(f"R AS r{n}" for n in range(16))
    query = bind(" AND ".join(f"r0.A = r{n}.A" for n in range(1, 16)), tables, "r0.A")
    assert len(query.graph.classes[0].attributes) == 16


def test_one_select_at_a_time() -> None:
    with pytest.raises(SqlError, match="one SELECT at a time"):
        bind_query("SELECT A FROM R; SELECT A FROM S", STREAMS)
    with pytest.raises(SqlError, match="only a SELECT"):
        bind_query("CREATE SINK x WITH (format = 'noop')", STREAMS)


@pytest.mark.parametrize(
    ("written", "columns"),
    [
        ("array(A, 2)[B]", "A B"),
        ("transform(ss, A -> A || s)", "ss s"),
        ("aggregate(ss, 0, (acc, v) -> acc + length(v), acc -> acc * B)", "ss B"),
        ("CASE A WHEN 1 THEN B ELSE NULL END", "A B"),
        ("extract(HOUR FROM ts)", "ts"),
        ("timestampadd(HOUR, B, ts)", "B ts"),
        ("ts - INTERVAL '1 02:00' DAY TO MINUTE", "ts"),
        ("s LIKE ANY ('a', s)", "s"),
        ("to_char(A, '999') || r'\\d'", "A"),
        ("struct(A AS B, X)", "A X"),
        ("CAST(s AS DECIMAL(10, 2))", "s"),
        ("exists(ss, v -> v = s)", "ss s"),
        ("10L + A", "A"),
    ],
)
def test_an_expression_reaches_spark_as_written_with_its_columns_qualified(
    written: str, columns: str
) -> None:
    expr = bind_query(f"SELECT {written} AS x FROM R", STREAMS).select[0].expr
    assert {ref.column for ref in expr.columns} == set(columns.split(" "))
    assert expr.sql.replace("R.", "") == written
    assert expr.sql.count("R.") >= len(expr.columns)
