"""Outer, semi and anti joins as people write them, from the text to the answers."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from watersmeet.errors import QueryError
from watersmeet.plan.physical import plan_physical
from watersmeet.spark.compile.tasks import JoinTasks, PackRows
from watersmeet.sql import bind_query
from watersmeet.testing import Setup, declare, run_query
from watersmeet.testing.setup import query_dataflow

HOUR = "[RANGE 1 HOUR]"


@pytest.mark.parametrize(
    ("left", "right", "one", "two", "partner"),
    [
        ("BIGINT", "INT", 1, 2, 1),
        ("SMALLINT", "BIGINT", 1, 2, 1),
        ("DECIMAL(10, 2)", "INT", Decimal("1.00"), Decimal("2.50"), 1),
        ("DOUBLE", "FLOAT", 1.0, 2.0, 1.0),
    ],
)
def test_keys_of_two_types_are_compared_as_their_common_one(
    left: str, right: str, one: object, two: object, partner: object
) -> None:
    streams = [
        declare("a", f"id INT, k {left}, ts TIMESTAMP", event_time="ts"),
        declare("b", f"id INT, k {right}, ts TIMESTAMP", event_time="ts"),
    ]
    batches = [{"a": [(1, one, 0), (2, two, 0), (3, None, 0)]}, {"b": [(4, partner, 1), (5, None, 1)]}]
    for partitions in (1, 3):
        result = run_query(
            f"SELECT a.id, b.id AS partner, b.k FROM a {HOUR} LEFT JOIN b {HOUR} ON a.k = b.k",
            batches,
            streams=streams,
            flush=True,
            partitions=partitions,
        )
        assert sorted(result.answers, key=str) == [(1, 4, partner), (2, None, None), (3, None, None)]


VALUES = [declare(name, "k INT, v INT, ts TIMESTAMP", event_time="ts") for name in "abc"]


@pytest.mark.parametrize(
    ("condition", "matching"),
    [
        ("1 = 1", [1, 2, 3]),
        ("1 = 2", []),
        ("c.v = NULL", []),
        ("b.v = NULL", []),
        ("NOT (2 BETWEEN b.v AND 1)", [1, 2, 3]),  # true of a b that is missing: 2 > 1
        ("2 BETWEEN b.v AND 3", [1]),
        ("c.v BETWEEN a.v AND 2", [1, 2]),
        ("c.v IN (a.v, 3)", [1, 2, 3]),
        ("c.v NOT IN (b.v, 7)", [2]),
        ("b.v <=> 2", [1]),
        ("b.v <=> NULL", [3]),
        ("b.v <=> -2 * -1", [1]),
        ("c.v <=> a.v", [1, 2]),
        ("c.v - a.v > 1", [3]),
        ("c.v - b.v <=> 0", [1]),
        ("c.v IS DISTINCT FROM a.v", [3]),
    ],
)
def test_a_condition_of_on_reads_constants_and_tuples_that_may_be_missing(
    condition: str, matching: list[int]
) -> None:
    rows = {
        "a": [(1, 2, 0), (2, 2, 0), (3, 1, 0)],
        "b": [(1, 2, 0), (2, 3, 0)],
        "c": [(1, 2, 1), (2, 2, 1), (3, 3, 1)],
    }
    result = run_query(
        f"SELECT a.k, c.k AS found FROM a {HOUR} LEFT JOIN b {HOUR} ON a.k = b.k "
        f"LEFT JOIN c {HOUR} ON a.k = c.k AND {condition}",
        [rows],
        streams=VALUES,
        flush=True,
    )
    assert result.matches_oracle()
    assert sorted(found for _, found in result.answers if found is not None) == matching
    assert len(result.answers) == 3


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("coalesce(b.v, 0) < 2", "coalesce(b.v, 0), in .* b may be missing there"),
        ("CASE WHEN b.v IS NULL THEN TRUE ELSE b.v > 1 END", "b may be missing there"),
        ("c.v / a.v > 1", "c.v / a.v, in .* Bring what is of one input to one side"),
        ("hash(a.v, c.v) < 10", "hash(a.v, c.v), in .* Bring what is of one input to one side"),
        ("rand() < 0.5", "it reads no input"),
    ],
)
def test_the_refusal_of_a_condition_of_on_names_the_part_at_fault(condition: str, why: str) -> None:
    with pytest.raises(QueryError, match="(?i)" + why.replace("(", r"\(").replace(")", r"\)")) as refused:
        run_query(
            f"SELECT a.k FROM a {HOUR} LEFT JOIN b {HOUR} ON a.k = b.k "
            f"LEFT JOIN c {HOUR} ON a.k = c.k AND {condition}",
            [],
            streams=VALUES,
        )
    assert "types of its sides" not in str(refused.value)


@pytest.mark.parametrize(
    ("condition", "answers"),
    [
        ("a.place.zip = b.zip", [(1, 11), (2, None), (3, None)]),
        ("a.id = b.id AND a.place.zip < b.zip", [(1, None), (2, 12), (3, None)]),
        ("a.id = b.id AND a.place.name <> b.place.name", [(1, None), (2, 12), (3, None)]),
        ("a.id = b.id AND a.place.zip <=> b.zip", [(1, 11), (2, None), (3, 13)]),
    ],
)
def test_fields_of_structs_are_compared_in_on(condition: str, answers: list[tuple[int, int | None]]) -> None:
    streams = [
        declare("a", "id INT, place STRUCT<zip: INT, name: STRING>, ts TIMESTAMP", event_time="ts"),
        declare("b", "id INT, v INT, zip BIGINT, place STRUCT<name: STRING>, ts TIMESTAMP", event_time="ts"),
    ]
    rows = {
        "a": [(1, {"zip": 5, "name": "x"}, 0), (2, {"zip": 6, "name": "y"}, 0), (3, None, 0)],
        "b": [(1, 11, 5, {"name": "x"}, 0), (2, 12, 7, {"name": "z"}, 0), (3, 13, None, {"name": "z"}, 0)],
    }
    result = run_query(
        f"SELECT a.id, b.v FROM a {HOUR} LEFT JOIN b {HOUR} ON {condition}",
        [rows],
        streams=streams,
        flush=True,
    )
    assert sorted(result.answers) == answers
    assert result.matches_oracle()


@pytest.mark.parametrize("partitions", [1, 3])
def test_what_is_computed_for_a_comparison_is_cast_to_its_type(partitions: int) -> None:
    """Spark's length() is an int, and both sides of a comparison in the join are of one type."""
    streams = [
        declare("a", "k STRING, s STRING, ts TIMESTAMP", event_time="ts"),
        declare("b", "k BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts"),
    ]
    sql = f"SELECT a.s, b.v FROM a {HOUR} LEFT JOIN b {HOUR} ON length(a.k) = b.k AND length(a.s) < b.v"
    tasks = query_dataflow(plan_physical(bind_query(sql, streams), partitions), Setup(), Path()).tasks
    assert isinstance(tasks.join, JoinTasks)
    packed = {task.alias: task for task in tasks.join.inputs if isinstance(task, PackRows)}
    computed = {column.sql for column in packed["a"].columns}
    assert {"CAST(length(a.k) AS bigint)", "CAST(LENGTH(a.s) AS bigint)"} <= computed
