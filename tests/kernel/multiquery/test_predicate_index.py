"""A table of endings finds the pairs that a loop over all results and all endings finds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import DataError
from watersmeet.kernel.multiquery.predicate_index import Results, tables_of
from watersmeet.query.arrow_types import TIMESTAMP
from watersmeet.query.shared_dataflow import QueryTail
from watersmeet.query.shared_dataflow import Test as Comparison

Examples = Callable[[int], settings]

STREAMS = ("a", "b", "c")
OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda x, c: x == c,
    "<>": lambda x, c: x != c,
    "<": lambda x, c: x < c,
    "<=": lambda x, c: x <= c,
    ">": lambda x, c: x > c,
    ">=": lambda x, c: x >= c,
}
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int8(), [-1, 0, 1, 2]),
    "big": (pa.int64(), [-(2**63), 0, 1, 2**63 - 1]),
    "text": (pa.string(), ["", "a", "b", "é", "\U0001f600", "\uffff"]),
    "flag": (pa.bool_(), [False, True]),
    "day": (pa.date32(), [-1, 0, 19000]),
    "at": (TIMESTAMP, [-5, 0, 1_700_000_000_000_000]),
    "us": (pa.int64(), [-5, 0, 1_700_000_000_000_000]),
}


def as_arrow(kind: str, values: list[Any]) -> pa.Array:
    type_ = KINDS[kind][0]
    if kind == "day":
        return pa.array(values, pa.int32()).cast(type_)
    return pa.array(values, pa.int64()).cast(type_) if kind == "at" else pa.array(values, type_)


def comparable(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@st.composite
def shape_tests(draw: st.DrawFn) -> list[Comparison]:
    tests = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(sorted(KINDS)))
        other = f"r.{kind}" if draw(st.integers(0, 4)) == 0 else None
        tests.append(Comparison(f"l.{kind}", draw(st.sampled_from(sorted(OPS))), other=other))
    return tests


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[QueryTail], dict[str, list[Any]], list[int], list[int]]:
    tests = draw(shape_tests())
    found = []
    for number in range(draw(st.integers(1, 6))):
        own = [
            test if test.other else replace(test, constant=draw(st.sampled_from(KINDS[test.column[2:]][1])))
            for test in tests
        ]
        since = draw(st.sampled_from([0, 0, 3]))
        found.append(
            QueryTail(
                query=f"q{number}",
                number=number,
                join="j",
                streams=("a", "b"),
                slots=(),
                tests=tuple(own),
                outputs=(),
                since=since,
            )
        )
    rows = draw(st.integers(0, 8))
    values = {
        f"{side}.{kind}": draw(st.lists(st.sampled_from([*domain, None]), min_size=rows, max_size=rows))
        for side in "lr"
        for kind, (_, domain) in KINDS.items()
    }
    since_rows = draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows))
    behind = draw(st.lists(st.integers(0, 7), min_size=rows, max_size=rows))
    return found, values, since_rows, behind


def naive(
    ending: QueryTail, values: dict[str, list[Any]], since: list[int], behind: list[int]
) -> list[tuple[int, int]]:
    found = []
    for row in range(len(since)):
        operands = [
            (test.op, values[test.column][row], values[test.other][row] if test.other else test.constant)
            for test in ending.tests
        ]
        holds = all(
            left is not None and right is not None and OPS[op](comparable(left), comparable(right))
            for op, left, right in operands
        )
        if holds and since[row] >= ending.since and behind[row] & 3 != 3:
            found.append((row, ending.number))
    return found


def pairs(found: list[QueryTail], values: dict[str, list[Any]], since: list[int], behind: list[int]) -> Any:
    results = Results(
        len(since),
        np.array(since, np.int64),
        [np.array(behind, np.int64)],
        lambda name: as_arrow(name[2:], values[name]),
    )
    return sorted(
        pair
        for table in tables_of(found, STREAMS, max_pairs=5)
        for rows, places in table.pairs(results)
        for pair in zip(rows.tolist(), table.numbers[places].tolist(), strict=True)
    )


def test_pairs_are_those_of_a_loop(examples: Examples) -> None:
    @given(tables())
    @examples(150)
    def holds(case: tuple[list[QueryTail], dict[str, list[Any]], list[int], list[int]]) -> None:
        expected = sorted(pair for ending in case[0] for pair in naive(ending, *case[1:]))
        assert pairs(*case) == expected

    holds()


def test_endings_that_differ_only_in_constants_are_one_table() -> None:
    def asks(number: int, constant: int) -> QueryTail:
        return QueryTail(
            query=f"q{number}",
            number=number,
            join="j",
            streams=("a",),
            slots=(),
            tests=(Comparison("l.big", "=", constant),),
            outputs=(),
        )

    assert len(tables_of([asks(n, n) for n in range(1000)], STREAMS)) == 1


def test_a_constant_of_another_kind_is_refused() -> None:
    asks = QueryTail(
        query="q",
        number=0,
        join="j",
        streams=("a",),
        slots=(),
        tests=(Comparison("l.text", "=", 5),),
        outputs=(),
    )
    with pytest.raises(DataError, match=r"l\.text is string"):
        pairs([asks], {"l.text": ["x"]}, [0], [0])


def test_a_type_that_cannot_be_tested_is_refused() -> None:
    asks = QueryTail(
        query="q",
        number=0,
        join="j",
        streams=("a",),
        slots=(),
        tests=(Comparison("l.r", "=", 5),),
        outputs=(),
    )
    results = Results(1, np.zeros(1, np.int64), [], lambda _: pa.array([dt.time(1)]))
    with pytest.raises(DataError, match="cannot be tested"):
        list(tables_of([asks], STREAMS)[0].pairs(results))
