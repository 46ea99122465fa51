"""Random SQL, hostile pieces in it: bound to what it means, or refused where the piece stands."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.sql.random_sql import (
    JOIN,
    STREAMS,
    draw_batches,
    draw_condition,
    draw_expressions,
    draw_hostile,
    draw_query,
)
from watersmeet.errors import SqlError
from watersmeet.oracle import oracle
from watersmeet.oracle.evaluate import evaluate
from watersmeet.sql import bind_query, bind_select, parse_statements

ROWS = [
    {"a": {"k": k, "v": v, "w": w, "ts": 0}, "b": {"k": k, "v": other, "w": "Two x", "ts": 5}}
    for k, v, w, other in ((1, 2, "x", 3), (7, None, None, 0), (-4, 25, " Reflect ", None), (0, 7, "", 7))
]


def values(text: str) -> list[Any]:
    (output,) = bind_query(f"SELECT {text} AS x {JOIN.format(window='ROWS 5')}", STREAMS).select
    return [evaluate(output.expr, row) for row in ROWS]


@pytest.mark.parametrize("seed", range(4))
def test_however_it_is_spelt_an_expression_means_the_same(seed: int, long_mode: bool) -> None:
    random_ = random.Random(seed)
    found = set()
    for written in draw_expressions(random_, 1_500 if long_mode else 60):
        plainly = values(written.plain)
        assert values(written.noisy) == plainly, written
        found.update(map(repr, plainly))
    assert len(found) > 15, "the expressions had different values to compare"


def test_however_it_is_spelt_a_query_has_the_same_answers(long_mode: bool) -> None:
    random_ = random.Random(400)
    sizes = []
    for _ in range(1_000 if long_mode else 40):
        written, batches = draw_query(random_), draw_batches(random_)
        plainly, noisily = (
            oracle.run(bind_query(text, STREAMS), batches, flush=True).rows
            for text in (written.plain, written.noisy)
        )
        assert oracle.bag(noisily) == oracle.bag(plainly), written
        sizes.append(len(plainly))
    assert sum(size > 0 for size in sizes) > 0.8 * len(sizes)


@pytest.mark.parametrize("seed", range(4))
def test_hostile_queries_are_refused_and_odd_ones_are_bound_or_refused(seed: int, long_mode: bool) -> None:
    random_ = random.Random(100 + seed)
    catalog = {stream.name: stream for stream in STREAMS}
    bound = refused = 0
    for _ in range(2_500 if long_mode else 60):
        text, is_denied = draw_hostile(random_)
        for shared in (False, True):
            refusal = None
            try:
                for select in parse_statements(text).selects:
                    bind_select(select, catalog, shared=shared)
            except SqlError as error:
                refusal = error
            assert refusal is not None or not is_denied, text
            assert refusal is None or 1 <= refusal.line <= text.count("\n") + 1
            bound, refused = bound + (refusal is None), refused + (refusal is not None)
    assert bound > 10
    assert refused > 40


@pytest.mark.parametrize("seed", range(3))
def test_random_conditions_are_bound_as_filters_or_residual(seed: int) -> None:
    random_ = random.Random(200 + seed)
    for _ in range(30):
        condition = draw_condition(random_)
        query = bind_query(f"SELECT a.k {JOIN.format(window='ROWS 5')} AND {condition.noisy}", STREAMS)
        kept = [*query.residual, *(each for item in query.inputs for each in item.filters)]
        plain = bind_query(f"SELECT {condition.plain} AS x FROM s1 AS a, s2 AS b WHERE a.k = b.k", STREAMS)
        for row in ROWS:
            meets = all(evaluate(each, row) is True for each in kept)
            assert meets == (evaluate(plain.select[0].expr, row) is True), condition
