"""The engine counts what the overlay lab counts of the same workload (`multiquery/overlay_parity`)."""

from __future__ import annotations

from collections import Counter

from tests.multiquery.overlay_parity import (
    QUERIES,
    STATISTICS,
    count_nulls,
    draw_batches,
    ring_streams,
    run_dhtjoin,
    run_rjoin,
)
from watersmeet.oracle.oracle import bag
from watersmeet.sql import bind_query
from watersmeet.testing import InProcessEngine, Setup


def test_a_shared_dataflow_counts_what_the_overlay_lab_counts() -> None:
    batches = draw_batches(5, count=3)
    queries = {name: bind_query(text, ring_streams()) for name, text in QUERIES.items()}
    counted: Counter[str] = Counter()
    with InProcessEngine(queries, Setup(statistics=STATISTICS)) as engine:
        steps = [engine.step(batch) for batch in batches]
    for step in steps:
        counted.update(step.metrics)
    dhtjoin, rjoin = run_dhtjoin(batches), run_rjoin(batches)
    assert counted["sent"] == dhtjoin.indexed.total()
    assert counted["stored"] == dhtjoin.sent_on.total()
    assert counted["combinations"] == dhtjoin.made.total()
    assert {level: counted[f"combinations_level_{level}"] for level in dhtjoin.made} == dhtjoin.made
    assert counted["sent_by_all"] == rjoin.at_value_level + count_nulls(batches)
    assert counted["answers"] == sum(len(rows) for rows in dhtjoin.answers.values())
    for name in QUERIES:
        found = [row for step in steps for row in step.by_query[name]]
        assert found, f"{name} without answers proves nothing"
        assert bag(found) == bag(dhtjoin.answers[name]) == bag(rjoin.answers[name]), name
