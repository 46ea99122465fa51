"""The names of a pipeline file's queries, under which they keep their state: never by their position."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from watersmeet.errors import SqlError
from watersmeet.spark.jobs.pipeline_file import name_queries, query_folder
from watersmeet.sql import Source, parse_pipeline
from watersmeet.sql.syntax.split import split_statements

DECLARED = """\
CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP) WITH (format = 'parquet', path = 's', event_time = 'ts');
CREATE SINK Pairs WITH (format = 'parquet', path = 'pairs');
CREATE SINK other WITH (format = 'parquet', path = 'other');
CREATE SINK `zwölf` WITH (format = 'console');
CREATE SINK `two words` WITH (format = 'parquet', path = 'more');
"""
QUERIES = {
    "Pairs": "INSERT INTO pairs SELECT k FROM s",
    "odd": "-- name: odd\nINSERT INTO Pairs SELECT v FROM s WHERE v % 2 = 1",
    "other": "INSERT INTO other SELECT k + 1 AS more FROM s",
    "console": "SELECT k + v AS total FROM s",
    "two_words": "INSERT INTO `two words` SELECT k - 1 AS less FROM s",
}


def names(*queries: str) -> dict[str, str]:
    """The name of each query of a file, and its text."""
    source = Source(DECLARED + ";\n".join(queries), "case.sql")
    found = name_queries(parse_pipeline(source.text, file=source.file), source)
    return {name: query.text for name, query in found.items()}


def test_a_query_has_its_own_name_whichever_others_stand_around_it() -> None:
    alone = {name: names(text)[name] for name, text in QUERIES.items()}
    for count in range(1, len(QUERIES) + 1):
        for chosen in permutations(QUERIES, count):
            assert names(*(QUERIES[name] for name in chosen)) == {name: alone[name] for name in chosen}


def test_a_part_of_a_checkpoint_has_a_name_without_case() -> None:
    assert query_folder("c", "Pairs") == query_folder("c", "pairs") == "c/pairs"


@pytest.mark.parametrize(
    ("queries", "problem"),
    [
        ([QUERIES["Pairs"], QUERIES["Pairs"]], "two queries are called Pairs"),
        ([QUERIES["Pairs"], "-- name: PAIRS\nSELECT k FROM s"], "two queries are called PAIRS"),
        ([QUERIES["console"], QUERIES["console"]], "two queries are called console"),
        (["INSERT INTO `zwölf` SELECT k FROM s"], "'zwölf' cannot name a query: use letters"),
        (["-- name: dead-letters-x\nSELECT k FROM s"], "dead-letters-x cannot name a query"),
        (["-- name: columns.json\nSELECT k FROM s"], "columns.json cannot name a query"),
        (["-- name: run.lock\nSELECT k FROM s"], "run.lock cannot name a query"),
    ],
)
def test_names_that_cannot_be_told_apart_are_refused_with_what_to_write(
    queries: list[str], problem: str
) -> None:
    with pytest.raises(SqlError) as refusal:
        names(*queries)
    assert f": {problem}" in str(refusal.value)
    assert str(refusal.value).endswith("Name it by a line before it: -- name: some-name")


def test_the_advice_for_a_union_names_both_statements() -> None:
    refused = (Path(__file__).parent / "golden" / "refusals" / "union.txt").read_text()
    assert "into one sink, each after a line that names it: -- name: some-name." in refused
    assert list(names(QUERIES["Pairs"], QUERIES["odd"])) == ["Pairs", "odd"]


def test_a_text_of_many_empty_lines_is_read_in_one_go() -> None:
    (written,) = split_statements(Source("\n" * 300_000 + "-- name: late\nSELECT 1"))
    assert written.name == "late"
