"""Which requests a shared dataflow accepts, how it refuses the others, and what is left of it on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.serve.registry.dataflows import CHAIN, PAIR, PLANNER, new_record
from watersmeet.errors import ConfigurationError, DataError, SqlError
from watersmeet.serve.registry.changes import BoundDataflow
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.listing import list_queries
from watersmeet.serve.registry.record import OLD_RECORD, RECORD, read_record, require_record, write_record
from watersmeet.serve.registry.requests import Drop, Request, Submit
from watersmeet.sql.query_names import name_statements
from watersmeet.sql.syntax.refuse import Source
from watersmeet.sql.syntax.split import split_statements


def submit(**queries: str) -> Submit:
    return Submit(tuple(queries.items()))


def take(current: BoundDataflow, *requests: Request, batch: int = 0) -> BoundDataflow:
    change = PLANNER.plan(current, {str(n): request for n, request in enumerate(requests)})
    assert not change.refused
    return change.result.settled(batch)


def refusal(current: BoundDataflow, request: Request) -> str:
    change = PLANNER.plan(current, {"it": request})
    assert change.accepted == ()
    assert change.result == current
    return change.refused["it"]


@pytest.fixture
def current(tmp_path: Path) -> BoundDataflow:
    return PLANNER.bind(new_record(tmp_path))


def test_queries_come_and_go_with_numbers_of_their_own(current: BoundDataflow) -> None:
    first = take(current, submit(a=PAIR.format(1), b=PAIR.format(2)), batch=4)
    assert [(q.name, q.number, q.since) for q in first.record.queries] == [("a", 1, 4), ("b", 2, 4)]
    again = take(first, Drop(("a",)), submit(a=CHAIN), batch=7)
    assert [(q.name, q.number, q.since) for q in again.record.staying.values()] == [("b", 2, 4), ("a", 3, 7)]
    gone = next(q for q in again.record.queries if q.number == 1)
    assert (gone.since, gone.until) == (4, 7)
    assert {(e.number, e.since, e.until < 100) for e in again.dataflow.tails} == {
        (1, 4, True), (2, 4, False), (3, 7, False),
    }  # fmt: skip


def test_a_query_is_over_when_its_last_batch_will_not_be_done_again(current: BoundDataflow) -> None:
    dropped = take(take(current, submit(a=PAIR.format(1))), Drop(("a",)), batch=7).record
    assert len(dropped.without_ended(committed=5).queries) == 1
    assert len(dropped.without_ended(committed=6).queries) == 0


def test_a_query_dropped_before_it_began_was_never_there(current: BoundDataflow) -> None:
    changed = take(current, submit(a=PAIR.format(1)), Drop(("a",)), submit(a=PAIR.format(2)))
    assert [(q.name, q.number) for q in changed.record.queries] == [("a", 2)]
    assert changed.record.next_number == 3


def test_a_request_is_taken_whole_or_not_at_all_and_others_do_not_suffer(current: BoundDataflow) -> None:
    bad = submit(x=PAIR.format(1), y="SELECT nothing FROM s1")
    change = PLANNER.plan(current, {"1": submit(a=PAIR.format(1)), "2": bad, "3": submit(c=CHAIN)})
    assert change.accepted == ("1", "3")
    assert set(change.refused) == {"2"}
    assert set(change.result.record.staying) == {"a", "c"}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (submit(a=PAIR.format(3)), "there is a query a already: drop it first"),
        (submit(A=PAIR.format(3)), "there is a query A already"),
        (Submit((("x", PAIR.format(1)), ("X", CHAIN))), "there is a query X already"),
        (Submit((("no name", PAIR.format(1)),)), "'no name' cannot name a query: use letters"),
        (Submit(((".x", PAIR.format(1)),)), "'.x' cannot name a query"),
        (Submit((("x" * 65, PAIR.format(1)),)), f"'{'x' * 65}' cannot name a query"),
        (Submit(()), "there is no query in the request"),
        (submit(x="SELECT a.q FROM s1 AS a"), "query x:1:10: stream s1 has no column q"),
        (submit(x="DROP TABLE s1"), "query x:1:1: a statement cannot begin with DROP"),
        (submit(x=f"{CHAIN}; {CHAIN}"), "query x: write one SELECT"),
        (submit(x="CREATE SINK z WITH (format = 'parquet')"), "query x: write one SELECT"),
        (submit(x=f"INSERT INTO ouch {CHAIN}"), "query x:1:13: there is no sink ouch"),
        (submit(x=f"INSERT INTO odd {CHAIN}"), "sink odd: a shared dataflow writes to"),
        (
            submit(x="SELECT a.k FROM (SELECT k, ts FROM s1) [ROWS 5] AS a"),
            "query x:1:12: a shared dataflow takes the views that were declared when it was created",
        ),
        (
            submit(
                x=f"INSERT INTO out {PAIR.format(1)}", y="INSERT INTO out SELECT a.k FROM s1 [ROWS 5] AS a"
            ),
            "query y into sink out: its answers are (k bigint), those of x are (k bigint, v bigint)",
        ),
        (Drop(("aa",)), "there is no query aa: did you mean a?"),
        (Drop(("zebra",)), "there is no query zebra: there are a"),
        (
            submit(x=f"INSERT INTO out {CHAIN}", y=f"INSERT INTO out {PAIR.format(1)}"),
            "query y into sink out: its answers are (k bigint, v bigint), those of x are (k bigint, w",
        ),
        (
            submit(x="INSERT INTO out SELECT a.k AS query FROM s1 AS a"),
            "query x into sink out: the column query is the query's name there",
        ),
    ],
)
def test_what_a_dataflow_does_not_take(current: BoundDataflow, request_: Request, message: str) -> None:
    with_a = take(current, submit(a=PAIR.format(1)))
    assert refusal(with_a, request_).startswith(message)


def test_columns_are_compared_with_those_of_queries_that_are_there(current: BoundDataflow) -> None:
    there = take(current, submit(a=f"INSERT INTO out {PAIR.format(1)}"))
    assert "those of a are (k bigint, v bigint)" in refusal(there, submit(x=f"INSERT INTO out {CHAIN}"))
    take(there, submit(x=f"INSERT INTO out {PAIR.format(2)}"))
    take(there, Drop(("a",)), submit(x=f"INSERT INTO out {CHAIN}"))
    take(there, submit(x=f"INSERT INTO texts {PAIR.format(1)}", y=f"INSERT INTO texts {CHAIN}"))


def test_a_dataflow_of_one_level_says_what_a_chain_needs(tmp_path: Path) -> None:
    current = PLANNER.bind(new_record(tmp_path, levels=1))
    assert "needs 2 levels" in refusal(current, submit(x=CHAIN))
    take(current, submit(x=PAIR.format(1)))


def test_a_dataflow_that_is_read_back_is_the_same_and_keeps_its_joins(
    current: BoundDataflow, tmp_path: Path
) -> None:
    folder = RegistryFolder(tmp_path)
    before = take(current, submit(a=PAIR.format(1), b=CHAIN, c=f"INSERT INTO out {PAIR.format(2)}"), batch=3)
    before = take(before, Drop(("a",)), batch=9)
    write_record(folder, before.record)
    read = require_record(folder)
    assert json.loads(read.to_json()) == json.loads(before.record.to_json())
    assert read.queries == before.record.queries
    assert PLANNER.bind(read).dataflow == before.dataflow


def test_a_folder_without_a_dataflow_and_one_with_a_damaged_one(tmp_path: Path) -> None:
    folder = RegistryFolder(tmp_path)
    assert read_record(folder) is None
    with pytest.raises(ConfigurationError, match="there is no shared dataflow in"):
        require_record(folder)
    whole = json.loads(new_record(tmp_path).to_json())
    wrong = json.dumps({**whole, "levels": "three"})
    for text in ("{", "[]", "{}", '{"format": 99}', '{"format": 2}', wrong):
        folder.write(RECORD, text)
        with pytest.raises(DataError, match="is damaged, or of another version"):
            read_record(folder)


def test_a_folder_of_a_version_that_called_it_a_ring_is_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = RegistryFolder(tmp_path)
    folder.write(OLD_RECORD, "{}")
    with pytest.raises(ConfigurationError, match=r"by an older version .* Resume it with the version that"):
        read_record(folder)


def test_hundreds_of_queries_in_one_request(current: BoundDataflow) -> None:
    many = Submit(tuple((f"q{n}", PAIR.format(n)) for n in range(400)))
    changed = take(current, many, batch=5)
    assert len(changed.record.staying) == 400
    assert len(changed.dataflow.joins) == 1
    assert all(tail.since == 5 for tail in changed.dataflow.tails)


def test_the_list_tells_what_is_shared(current: BoundDataflow, tmp_path: Path) -> None:
    queries = submit(first=PAIR.format(1), second=f"INSERT INTO out {PAIR.format(2)}", third=CHAIN)
    write_record(RegistryFolder(tmp_path), take(current, queries, batch=12).record)
    assert list_queries(RegistryFolder(tmp_path)).pretty() == (
        "shared dataflow 0123abcd, not served now\n"
        "name    since batch  sink     joins  shared\n"
        "first            12  console      1       1\n"
        "second           12  out          1       1\n"
        "third            12  console      2       1"
    )
    document = json.loads(list_queries(RegistryFolder(tmp_path)).to_json())
    assert [query["name"] for query in document["queries"]] == ["first", "second", "third"]
    assert document["is_served"] is False


def test_statements_are_named_by_the_comment_before_them() -> None:
    text = (
        "-- name: paid\nSELECT 1; -- name: no\n\n-- some words\nSELECT ';', '-- name: x';\n"
        "-- name: first\n-- name: last\n/* also */ INSERT INTO a SELECT 2;;"
    )
    source = Source(text)
    named = name_statements(source, split_statements(source), "q")
    assert {name: each.text for name, each in named.items()} == {
        "paid": "SELECT 1",
        "q2": "SELECT ';', '-- name: x'",
        "last": "INSERT INTO a SELECT 2",
    }


def test_names_in_comments_are_checked() -> None:
    def name(text: str) -> list[str]:
        source = Source(text)
        return list(name_statements(source, split_statements(source), "q"))

    assert name("-- name: two words\nSELECT 1; -- name: beside\nSELECT 2") == ["q1", "q2"]
    with pytest.raises(SqlError, match="'' cannot name a query"):
        name("-- name:\nSELECT 1")
    with pytest.raises(SqlError, match="two queries are called Q1"):
        name("SELECT 1;\n-- name: Q1\nSELECT 2")
