"""CREATE STREAM and CREATE SINK."""

from __future__ import annotations

import pytest

from watersmeet.errors import SqlError
from watersmeet.query import Column, Connector, Sink, Stream
from watersmeet.sql import bind_select, parse_pipeline, parse_statements


def test_a_stream_is_as_declared() -> None:
    text = """
    CREATE STREAM s1 (dest STRING, size BIGINT NOT NULL, ts TIMESTAMP COMMENT 'when')
      WITH (format = 'parquet', path = 'data/s1', 'option.maxFilesPerTrigger' = '1', option.a.b = 2,
            event_time = 'TS', lateness = '5 seconds', idle_after = '1 min', site = 'paris');
    """
    assert parse_pipeline(text).streams == (
        Stream(
            "s1",
            (Column("dest", "string"), Column("size", "bigint"), Column("ts", "timestamp")),
            event_time="ts",
            lateness_us=5_000_000,
            idle_after_us=60_000_000,
            site="paris",
            source=Connector("parquet", (("path", "data/s1"), ("maxFilesPerTrigger", "1"), ("a.b", "2"))),
        ),
    )


def test_a_sink_is_as_declared() -> None:
    pipeline = parse_pipeline("create sink out with (FORMAT = 'parquet', path = 'out', site = 'rome')")
    assert pipeline.sinks == (Sink("out", Connector("parquet", (("path", "out"), ("site", "rome")))),)


@pytest.mark.parametrize(
    ("written", "spelt"),
    [
        ("BIGINT", "bigint"),
        ("LONG", "bigint"),
        ("INTEGER", "int"),
        ("short", "smallint"),
        ("BYTE", "tinyint"),
        ("REAL", "float"),
        ("DOUBLE", "double"),
        ("DECIMAL(10, 2)", "decimal(10,2)"),
        ("NUMERIC(5)", "decimal(5,0)"),
        ("DECIMAL", "decimal(10,0)"),
        ("VARCHAR(10)", "varchar(10)"),
        ("TIMESTAMP_NTZ", "timestamp_ntz"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("ARRAY<STRING>", "array<string>"),
        ("array<array<decimal(3,1)>>", "array<array<decimal(3,1)>>"),
        ("MAP<STRING, INT>", "map<string,int>"),
        ("STRUCT<City: STRING, zip INT>", "struct<City:string,zip:int>"),
        ("BINARY", "binary"),
        ("DATE", "date"),
        ("BOOLEAN", "boolean"),
    ],
)
def test_types_are_spelt_as_spark_spells_them(written: str, spelt: str) -> None:
    text = f"CREATE STREAM s (a {written}, b INT) WITH (format = 'rate')"
    assert parse_pipeline(text).streams[0].columns == (Column("a", spelt), Column("b", "int"))


def test_statements_come_in_any_order_with_comments_between() -> None:
    text = """
    -- first the query; it uses what is declared below
    INSERT INTO OUT SELECT * FROM s;;
    /* the stream; */ CREATE STREAM s (a INT) WITH (format = 'rate');
    SELECT a FROM s; CREATE SINK out WITH (format = 'noop');
    """
    pipeline = parse_pipeline(text, file="x.sql")
    assert [query.sink for query in pipeline.queries] == ["out", None]
    assert [query.text for query in pipeline.queries] == ["SELECT * FROM s", "SELECT a FROM s"]


def test_columns_may_be_found_later() -> None:
    text = "CREATE STREAM s WITH (format = 'parquet', event_time = 'TS');\nSELECT * FROM s [RANGE 1 MIN]"
    found = (Column("a", "int"), Column("ts", "timestamp"))
    assert parse_statements(text).streams[0].columns == ()
    pipeline = parse_pipeline(text, infer=lambda stream: found)
    assert pipeline.streams[0].columns == found
    assert pipeline.streams[0].event_time == "ts"
    assert [output.name for output in pipeline.queries[0].select] == ["a", "ts"]


def test_an_event_time_found_to_be_wrong_later_is_refused_where_it_was_written() -> None:
    statements = parse_statements("CREATE STREAM s\n  WITH (format = 'parquet', event_time = 'ts')", "p.sql")
    with pytest.raises(SqlError, match=r"^p\.sql:2:29: event_time ts is bigint") as refusal:
        statements.declarations[0].complete([Column("ts", "bigint")])
    assert refusal.value.line == 2


def test_a_select_is_bound_against_any_catalog() -> None:
    statements = parse_statements("SELECT a FROM s [ROWS 5]")
    query = bind_select(statements.selects[0], {"S": Stream("S", (Column("A", "int"),))})
    assert query.inputs[0].alias == "S"
    assert query.select[0].name == "A"


def test_a_place_is_right_in_the_third_statement_of_a_file() -> None:
    text = "CREATE STREAM s (a INT)\n  WITH (format = 'rate');\nSELECT a\nFROM s;\n\nSELECT a,\n\tbb\nFROM s;"
    with pytest.raises(SqlError) as refusal:
        parse_pipeline(text, file="p.sql")
    assert (refusal.value.line, refusal.value.column) == (7, 2)


def test_dead_letters_go_to_a_sink_of_their_own() -> None:
    stream = "CREATE STREAM s (a INT) WITH (format = 'kafka', Dead_Letters = 'BAD');\n"
    sink = "CREATE SINK bad WITH (format = 'console');\n"
    declared = parse_statements(stream + sink).streams[0]
    assert declared.source is not None
    assert declared.source.options == (("dead_letters", "BAD"),)
    with pytest.raises(SqlError, match="there is no sink BAD for the dead letters of s"):
        parse_statements(stream)
    with pytest.raises(SqlError, match=r"Did you mean bat\?"):
        parse_statements(stream + sink.replace("bad", "bat"))
    with pytest.raises(SqlError, match="sink BAD takes answers, so it cannot take dead letters"):
        parse_statements(stream + sink + "INSERT INTO bad SELECT a FROM s;")


@pytest.mark.parametrize(
    "name",
    ["a/b", "../up", "..", ".hidden", "a\\b", "a\tb", "a\x07b", "x" * 65, "ä" * 33, "a ", "-a", "a:b", "a*"],
)
def test_a_sink_is_called_what_a_folder_can_be_called(name: str) -> None:
    with pytest.raises(SqlError, match="could not keep its state in a folder of that name"):
        parse_pipeline(f"CREATE SINK `{name}` WITH (format = 'noop')")


@pytest.mark.parametrize("name", ["out", "two words", "höhe", "_x.y-z", "x" * 64, "9"])
def test_other_names_of_sinks_stay(name: str) -> None:
    assert parse_pipeline(f"CREATE SINK `{name}` WITH (format = 'noop')").sinks[0].name == name
    twice = (
        f"CREATE SINK `{name}` WITH (format = 'noop'); CREATE SINK `{name.swapcase()}` WITH (format = 'noop')"
    )
    with pytest.raises(SqlError, match="declared twice"):
        parse_pipeline(twice)
