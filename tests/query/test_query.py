"""The bound query: what it reads, whether it waits, and how it prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.testing.outer_queries import leaf, node, query
from watersmeet.query import (
    UNBOUNDED,
    Aggregate,
    Attribute,
    AttributeClass,
    Column,
    ColumnRef,
    Connector,
    Expr,
    Input,
    JoinGraph,
    JoinKind,
    Output,
    Pipeline,
    Query,
    Sink,
    Stream,
    column_expr,
    range_us,
    rows,
)

COLUMNS = tuple(
    Column(name, type_name)
    for name, type_name in [("dest", "string"), ("size", "bigint"), ("note", "string"), ("ts", "timestamp")]
)
S1 = Stream("s1", COLUMNS, event_time="ts", lateness_us=5_000_000, site="paris")
S2 = Stream("s2", COLUMNS, event_time="ts")
BIG = Expr("a.size > 100", (ColumnRef("a", "size"),), "boolean")
SMALLER = Expr("b.size < a.size", (ColumnRef("b", "size"), ColumnRef("a", "size")), "boolean")


def dest(*aliases: str) -> AttributeClass:
    return AttributeClass(tuple(Attribute(alias, column_expr(alias, "dest")) for alias in aliases), "string")


QUERY = Query(
    inputs=(Input("a", S1, range_us(600_000_000), (BIG,)), Input("b", S2, UNBOUNDED)),
    graph=JoinGraph(("a", "b"), (dest("a", "b"),)),
    select=(
        Output("note", column_expr("a", "note")),
        Output("t", Expr("answer_time", uses_answer_time=True)),
    ),
    residual=(SMALLER,),
    sink="out",
)


def test_answers_need_what_select_and_residual_name() -> None:
    assert QUERY.payload("a") == ("size", "note")
    assert QUERY.payload("b") == ("size",)


def test_a_query_reads_keys_filters_and_event_time_too() -> None:
    assert QUERY.columns_read("a") == ("dest", "size", "note", "ts")
    assert QUERY.columns_read("b") == ("dest", "size", "ts")


def test_an_aggregate_needs_its_groups_and_its_having() -> None:
    having = Expr("max(b.note) > 'x'", (ColumnRef("b", "note"),))
    query = replace(
        QUERY,
        select=(Output("n", Expr("count(*)")),),
        residual=(),
        aggregate=Aggregate((column_expr("a", "dest"),), 1_000_000, having),
    )
    assert query.payload("a") == ("dest",)
    assert query.payload("b") == ("note",)


def test_streams_are_listed_once_even_in_a_self_join() -> None:
    inputs = (Input("x", S1, UNBOUNDED), Input("y", S1, UNBOUNDED))
    query = replace(QUERY, inputs=inputs, graph=JoinGraph(("x", "y"), (dest("x", "y"),)))
    assert query.streams == (S1,)
    assert query.input("y").alias == "y"


def test_who_waits_for_the_watermark() -> None:
    counted = replace(QUERY, inputs=(QUERY.inputs[0], replace(QUERY.inputs[1], window=rows(5))))
    assert (QUERY.is_delayed, QUERY.joins_delayed, QUERY.waits_at_end) == (False, False, False)
    assert (counted.is_delayed, counted.joins_delayed) == (True, True)
    for waiting in (replace(QUERY, distinct=True), replace(QUERY, aggregate=Aggregate((), 1))):
        assert (waiting.is_delayed, waiting.joins_delayed, waiting.waits_at_end) == (True, False, True)


def test_rows_that_wait_for_a_match_are_let_out_by_the_end_of_the_input() -> None:
    kept = query(node(JoinKind.LEFT, leaf("a"), leaf("b"), ("a.k", "b.k")))
    assert (kept.is_delayed, kept.waits_at_end) == (False, True)


def test_the_graph_names_the_inputs_in_order() -> None:
    with pytest.raises(ValueError, match="must name the query's inputs in order"):
        replace(QUERY, graph=JoinGraph(("b", "a"), (dest("a", "b"),)))


def test_a_query_prints_as_a_reader_wants_it() -> None:
    assert QUERY.pretty() == (
        "into out\n"
        "from s1 AS a [RANGE 10 MIN] where a.size > 100\n"
        "from s2 AS b [UNBOUNDED]\n"
        "join type 1: a, b\n"
        "       a.dest = b.dest  (string)\n"
        "residual b.size < a.size\n"
        "select a.note, answer_time AS t"
    )


def test_an_aggregate_query_prints_its_groups_and_ticks() -> None:
    key = column_expr("s2", "dest")
    query = Query(
        inputs=(Input("s2", S2, rows(100)),),
        graph=JoinGraph(("s2",)),
        select=(Output("dest", key), Output("n", Expr("count(*)"))),
        distinct=True,
        aggregate=Aggregate((key,), 10_000_000, Expr("count(*) > 1")),
    )
    assert query.pretty() == (
        "from s2 [ROWS 100]\n"
        "join single stream: s2\n"
        "select distinct s2.dest, count(*) AS n\n"
        "group by s2.dest having count(*) > 1 emit every 10 s"
    )


def test_streams_and_sinks_print_what_was_declared() -> None:
    assert S1.pretty() == (
        "s1(dest string, size bigint, note string, ts timestamp) event time ts, lateness 5 s, at paris"
    )
    assert Stream("s3", (Column("x", "int"),)).pretty() == "s3(x int) stamped on arrival"
    idle = Stream("s4", COLUMNS[3:], "ts", idle_after_us=60_000_000)
    assert idle.pretty() == "s4(ts timestamp) event time ts, lateness 0 s, idle after 1 min"
    sink = Sink("out", Connector("parquet", (("path", "out/common"),)))
    pipeline = Pipeline(streams=(S1,), sinks=(sink,), queries=(QUERY,))
    assert pipeline.pretty() == f"stream {S1.pretty()}\n\nsink out (parquet)\n\n{QUERY.pretty()}"


def test_names_are_found_whatever_their_case() -> None:
    assert S1.column("DEST") == COLUMNS[0]
    assert S1.column("nothing") is None
    sink = Sink("Out", Connector("parquet", (("Path", "x"),)))
    assert Pipeline(sinks=(sink,)).sink("oUT") is sink
    assert sink.connector.option("path") == "x"


@pytest.mark.parametrize(
    ("name", "sql"), [("v", "a.v"), ("my port", "a.`my port`"), ("1st", "a.`1st`"), ("ti`ck", "a.`ti``ck`")]
)
def test_a_column_is_quoted_only_where_it_must_be(name: str, sql: str) -> None:
    expr = column_expr("a", name)
    assert expr.sql == sql
    assert expr.is_column
    assert expr.aliases == ("a",)
