"""A shared dataflow counts what the overlay lab counts, wherever both count the same thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from tests.kernel.multiquery.feeding import DataflowRun, run_dataflow
from tests.kernel.multiquery.overlay_parity import (
    ATTRIBUTES,
    CHAINS,
    LEVELS,
    QUERIES,
    STATISTICS,
    arrivals,
    bind,
    count_nulls,
    dataflow_streams,
    draw_batches,
    run_dhtjoin,
    run_rjoin,
)
from watersmeet.oracle.oracle import MicroBatch, bag
from watersmeet.plan.multiquery.plan_dataflow import Registered, plan_dataflow

BUCKETS = 3


def run(batches: Sequence[MicroBatch], names: Iterable[str] = QUERIES) -> DataflowRun:
    queries = bind(dataflow_streams(), names)
    registered = [Registered(name, number, query) for number, (name, query) in enumerate(queries.items())]
    dataflow = plan_dataflow(registered, dataflow_streams(), LEVELS, STATISTICS)
    return run_dataflow(lambda _: dataflow, queries, batches, BUCKETS)


def indexed(outcome: DataflowRun) -> Counter[str]:
    """Tuples taken in, by feed: where it is needed first, as it is sent once."""
    found: dict[int, Counter[str]] = {level: Counter() for level in range(1, LEVELS + 1)}
    for batch in outcome.counts:
        for (level, _), counts in batch.items():
            found[level].update(counts.indexed)
    total: Counter[str] = Counter()
    for level in sorted(found):
        total.update({feed: count for feed, count in found[level].items() if feed not in total})
    return total


def by_level(outcome: DataflowRun, count: str) -> Counter[int]:
    found: Counter[int] = Counter()
    for batch in outcome.counts:
        for (level, _), counts in batch.items():
            found[level] += getattr(counts, count)
    return +found


@pytest.mark.parametrize("seed", range(3))
def test_a_dataflow_indexes_and_keeps_what_dhtjoin_does(seed: int) -> None:
    batches = draw_batches(seed, count=6)
    lab, ours = run_dhtjoin(batches), run(batches)
    assert indexed(ours) == lab.indexed
    assert len(lab.indexed) > len(QUERIES)
    assert by_level(ours, "stored") == lab.sent_on
    assert by_level(ours, "results") == lab.made
    assert set(lab.sent_on) == {2, 3}
    for name in QUERIES:
        assert lab.answers[name], f"{name} without answers proves nothing"
        assert bag(ours.rows[name]) == bag(lab.answers[name]), name


@pytest.mark.parametrize("seed", range(3))
def test_what_a_dataflow_keeps_of_a_chain_are_rjoins_rewritten_queries(seed: int) -> None:
    batches = draw_batches(seed, count=6)
    lab = run_rjoin(batches)
    for name in CHAINS:
        alone = run(batches, [name])
        rewritten = Counter({tuples: n for (query, tuples), n in lab.rewritten.items() if query == name})
        first = bind(dataflow_streams())[name].graph.classes[0].attributes[0]
        begun = indexed(alone)[f"{first.alias} by {first.expr.columns[0].column}"]
        assert Counter({1: begun}) + by_level(alone, "stored") == rewritten, name
        assert bag(alone.rows[name]) == bag(lab.answers[name]), name


def test_rjoin_indexes_by_every_value_and_rewrites_each_query_by_itself() -> None:
    """Where they differ: DHTJoin and we join equal values at once, and share what queries have in common."""
    batches = draw_batches(7, count=6)
    lab, together = run_rjoin(batches), run(batches)
    tuples = sum(1 for _ in arrivals(batches))
    assert lab.at_value_level == lab.at_attribute_level == tuples * len(ATTRIBUTES) - count_nulls(batches)
    assert indexed(together).total() < lab.at_value_level
    assert lab.rewritten["type_1", 2] > 0
    assert by_level(run(batches, ["type_1", "type_1_if"]), "stored").total() == 0
    assert lab.rewritten["chain_3", 2] == lab.rewritten["chain_4", 2]
    kept = by_level(together, "stored").total()
    assert (
        kept == sum(lab.rewritten[name, n] for name in CHAINS for n in (2, 3)) - lab.rewritten["chain_3", 2]
    )
