"""A query that is stopped, moved or run again in part gives each answer once."""

from __future__ import annotations

import pytest

from tests.spark.pipelines import QUERIES, random_batches
from tests.testing.running import bind, check, run_batches
from watersmeet.spark.tuning import Tuning
from watersmeet.sql import bind_query
from watersmeet.testing import InProcessEngine, Setup, declare


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("direct_files", [False, True])
def test_stopped_queries_resume_without_loss_or_repetition(kind: str, direct_files: bool) -> None:
    query, batches = bind(QUERIES[kind]), random_batches(seed=1, count=5)

    def stop(engine: InProcessEngine, number: int) -> None:
        if number == 2:
            engine.restart()
        if number == 3:  # within a batch, whose tasks have all been done
            engine.repeat_next_batch()
            engine.lose_caches()
        if number == 4:
            engine.repeat_next_batch()  # with caches that are ahead of the state

    steps = run_batches(query, batches, Setup(direct_files=direct_files), flush=True, before=stop)
    check(query, batches, steps, flush=True)


@pytest.mark.parametrize("kind", QUERIES)
def test_tasks_that_die_are_run_again(kind: str) -> None:
    query, batches = bind(QUERIES[kind]), random_batches(seed=2, count=4)
    steps = run_batches(
        query, batches, flush=True, before=lambda engine, number: engine.fail_next_task(1 + number)
    )
    check(query, batches, steps, flush=True)


@pytest.mark.parametrize("partitions", [1, 2, 6])
def test_a_query_goes_on_whoever_reads_the_files(partitions: int) -> None:
    """Buckets read files themselves, packing tasks do, or Spark does: the state is the same."""
    query, batches = bind(QUERIES["plain"]), random_batches(seed=21, count=6)

    def change(engine: InProcessEngine, number: int) -> None:
        if number % 2 == 0:
            engine.restart(Setup(partitions=partitions, direct_files=number != 2))

    steps = run_batches(query, batches, Setup(partitions=partitions), flush=True, before=change)
    check(query, batches, steps, flush=True)


def test_wide_text_is_the_same_whenever_it_is_read() -> None:
    """Text that comes after the join, of tuples that are in answers now, stay, or are restored."""
    wide = Tuning(late_rows=1, late_bytes=1, chosen_rows=3, chunk_rows=8)
    columns = "k BIGINT, note STRING, ts TIMESTAMP"
    streams = [declare(name, columns, event_time="ts") for name in ("s1", "s2")]
    batches = [
        {
            name: [(n % 7, f"{name} {batch} {n} " * 9, batch * 1000 + n) for n in range(30)]
            for name in ("s1", "s2")
        }
        for batch in range(3)
    ]
    query = bind_query(
        "SELECT a.note AS x, b.note AS y FROM s1 [RANGE 1010 US] AS a, s2 [RANGE 900 US] AS b "
        "WHERE a.k = b.k",
        streams,
    )
    for lose in (False, True):
        with InProcessEngine(query, Setup(direct_files=True, tuning=wide)) as engine:
            steps = []
            for batch in batches:
                steps.append(engine.step(batch))
                if lose:
                    engine.lose_caches()
            check(query, engine.arrived, steps)
