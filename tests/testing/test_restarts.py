"""A query that is stopped, moved or run again in part gives each answer once."""

from __future__ import annotations

import pytest

from tests.spark.pipelines import QUERIES, random_batches
from tests.testing.running import bind, check, run_batches
from watersmeet.testing import InProcessEngine, Setup


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
