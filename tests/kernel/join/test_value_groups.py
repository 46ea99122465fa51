"""Heavy values may probe in orders of their own: fewer probes where rates differ, the same answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings

from tests.kernel.answered import answers_in
from tests.kernel.feeding import SMALL
from tests.kernel.join.test_join import Case, check
from tests.strategies import cases
from watersmeet.kernel import DEFAULT_TUNING, TS, MultiwayJoin, Tuning, lay_out
from watersmeet.query import Column, Stream
from watersmeet.sql import bind_query

COLUMNS = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
STREAMS = [Stream(name, COLUMNS, "ts") for name in ("s1", "s2", "s3")]
THREE = bind_query(
    "SELECT a.v AS va, b.v AS vb, c.v AS vc FROM s1 [RANGE 1 SECOND] AS a, s2 [RANGE 1 SECOND] AS b, "
    "s3 [RANGE 1 SECOND] AS c WHERE a.k = b.k AND b.k = c.k",
    STREAMS,
)
ROWS, BATCHES, BATCH_US = 300, 24, 250_000


def draw(random: np.random.Generator, weights: dict[int, float], number: int) -> pa.RecordBatch:
    """Keys by weight, the rest evenly over a thousand; event times of one batch."""
    keys = random.integers(10, 1010, ROWS)
    at = random.random(ROWS)
    low = 0.0
    for key, weight in weights.items():
        keys[(at >= low) & (at < low + weight)] = key
        low += weight
    ts = np.sort(random.integers(number * BATCH_US, (number + 1) * BATCH_US, ROWS))
    return pa.record_batch({TS: ts, "__key0": keys, "v": np.arange(ROWS)})


def run(
    weights: dict[str, dict[int, float]], tuning: Tuning = DEFAULT_TUNING, batches: int = BATCHES
) -> tuple[int, int, MultiwayJoin]:
    """Probes and answers of a join over streams with these heavy values."""
    random, join = np.random.default_rng(3), MultiwayJoin(lay_out(THREE), tuning=tuning)
    probes = answers = 0
    for number in range(batches):
        new = {alias: draw(random, own, number) for alias, own in weights.items()}
        answers += sum(table.num_rows for table in join.step(new, number * BATCH_US))
        probes += join.counts.probes
    return probes, answers, join


OPPOSITE = {"a": {1: 0.3, 2: 0.3}, "b": {1: 0.05}, "c": {2: 0.05}}
ALIKE = {"a": {1: 0.3, 2: 0.3}, "b": {1: 0.02, 2: 0.02}, "c": {1: 0.05, 2: 0.05}}


def test_values_with_opposite_rates_probe_in_opposite_orders() -> None:
    probes, answers, join = run(OPPOSITE)
    first = {
        group.sequence[0].alias: len(group.arrivals) for group in join.groups.groups("a", join_arrivals(join))
    }
    assert set(first) == {"b", "c"}
    probes_of_one_order, same_answers, _ = run(OPPOSITE, Tuning(least_gain=np.inf))
    assert answers == same_answers
    assert probes < 0.75 * probes_of_one_order


def test_values_with_like_rates_are_not_split() -> None:
    _, answers, join = run(ALIKE, batches=10)
    assert answers
    for head in "abc":
        assert len(list(join.groups.groups(head, join_arrivals(join)))) == 1


def join_arrivals(join: MultiwayJoin):  # type: ignore[no-untyped-def]
    """The tuples of a batch as they reach a join."""
    batch = draw(np.random.default_rng(9), OPPOSITE["a"], BATCHES)
    return join._arrivals("a", join._keep("a", batch, None))


def test_answers_are_the_oracles_whatever_is_split(examples: Callable[[int], settings]) -> None:
    """Every value that a sample shows twice is split off, whether it pays or not."""
    always_split = replace(SMALL, sample_every=1, least_sampled=1.0, least_gain=-np.inf)

    with answers_in(0.5) as answered:

        @given(cases(kinds=("plain",), min_inputs=3, max_inputs=5))
        @examples(30)
        def holds(case: Case) -> None:
            answered.count(check(*case, tuning=always_split))

        holds()
