"""A run owns what one start has started: followed and stopped apart from others, each query failing alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.jobs.fake_queries import FakeLock, FakeQuery, new_run
from watersmeet.errors import ConfigurationError, DataError, TransientError, WatersmeetError
from watersmeet.spark.jobs.pipeline_run import STARTING_AT_ONCE, plan_run


def test_stopping_a_run_stops_its_dead_letters_and_nobody_elses() -> None:
    log: list[str] = []
    first = new_run([FakeQuery("job 1", log)], [FakeQuery("letters 1", log)])
    second = new_run([FakeQuery("job 2", log)], [FakeQuery("letters 2", log)])
    first.start()
    second.start()
    # Dead letters start first: what is malformed for a job is then there for them.
    assert log == ["start letters 1", "start job 1", "start letters 2", "start job 2"]
    log.clear()
    first.stop()
    assert log == ["stop job 1", "stop letters 1"]


def test_a_run_that_is_refused_leaves_nothing_running_and_names_the_query() -> None:
    log: list[str] = []
    bad = FakeQuery("bad", log, refusal=ConfigurationError("no such sink"))
    run = new_run([FakeQuery("job", log), bad], [FakeQuery("letters", log)], FakeLock(log))
    with pytest.raises(ConfigurationError, match=r"^query bad: no such sink$"):
        run.start()
    assert log == ["start letters", "start job", "stop job", "stop bad", "stop letters", "unlock"]


def test_a_run_is_followed_until_the_last_of_its_queries_ends() -> None:
    short, long = FakeQuery("short", batches=1), FakeQuery("long", batches=4)
    reported: list[str] = []
    run = new_run([short, long], [FakeQuery("letters", batches=0)])
    run.follow(lambda job, progress: reported.append(job.name))
    assert reported == ["short", "long"] * 5  # once more after the end, for what came last
    assert set(run.progress) == {"short", "long"}


def test_a_run_is_followed_no_longer_than_the_caller_wants() -> None:
    run = new_run([FakeQuery("job", batches=1000)], [])
    run.follow(until=lambda: bool(run.progress))
    assert set(run.progress) == {"job"}


@pytest.mark.parametrize("failing", ["job", "letters"])
def test_where_one_query_fails_the_others_go_on_and_its_failure_is_told_at_once_and_raised_at_the_end(
    failing: str,
) -> None:
    bad = FakeQuery("bad", batches=1, failure=DataError("the disk is full"))
    good = FakeQuery("good", batches=6)
    run = new_run([bad, good] if failing == "job" else [good], [] if failing == "job" else [bad])
    told: list[tuple[str, str, bool]] = []
    left: list[int] = []

    def tell(name: str, error: WatersmeetError, is_tried_again: bool) -> None:
        told.append((name, str(error), is_tried_again))
        left.append(good.batches)

    run.start()
    with pytest.raises(DataError, match=r"^query bad: the disk is full$"):
        run.follow(on_failure=tell)
    assert told == [("bad", "the disk is full", False)]
    assert left[0] > 0, "it was told while the other went on"
    assert good.batches < 0, "the other came to its end"
    assert list(run.failures) == ["bad"]


def test_a_query_that_fails_at_its_start_by_its_data_does_not_keep_the_others_from_running() -> None:
    bad = FakeQuery("bad", refusal=DataError("a file is damaged"))
    run = new_run([bad, FakeQuery("good")], [])
    run.start()
    with pytest.raises(DataError, match=r"^query bad: a file is damaged$"):
        run.follow()
    assert list(run.progress) == ["good"]
    alone = new_run([bad], [])
    with pytest.raises(DataError, match=r"^a file is damaged$"):
        alone.start()


def test_all_that_failed_is_named() -> None:
    queries = [FakeQuery(name, failure=DataError(f"{name} is bad")) for name in "ab"]
    run = new_run([*queries, FakeQuery("c")], [])
    with pytest.raises(
        WatersmeetError, match=r"^2 of 3 queries have failed:\n  query a: a is bad\n  query b"
    ):
        run.follow()


def test_a_setback_is_told_once_as_one_that_is_tried_again() -> None:
    job = FakeQuery("job", setbacks=[TransientError("busy")])
    told: list[tuple[str, str, bool]] = []
    run = new_run([job], [])
    run.follow(on_failure=lambda name, error, again: told.append((name, str(error), again)))
    assert told == [("job", "busy", True)]


def test_only_a_few_queries_start_at_once_and_a_slow_one_holds_up_nobody_for_ever() -> None:
    log: list[str] = []
    queries = [FakeQuery(f"{n}", log, settled=False) for n in range(STARTING_AT_ONCE + 2)]
    run = new_run(queries, [])
    asked: list[int] = []
    # The first settles when it is asked for the third time; before that no further query has started.
    queries[0].is_settled = lambda: asked.append(len(log)) or len(asked) > 2  # type: ignore[method-assign,func-returns-value]
    run.start()
    assert asked[:3] == [STARTING_AT_ONCE] * 3
    assert log == [f"start {n}" for n in range(STARTING_AT_ONCE + 2)]  # the last one waited its time


def test_queries_whose_input_has_ended_are_passed_over() -> None:
    jobs: Any = [FakeQuery("a", has_ended=True), FakeQuery("b")]
    run = plan_run(jobs, [], {}, None)
    assert (run.ended, run.names) == (("a",), ("b",))


def test_the_lock_is_released_when_all_has_ended_or_is_stopped_even_if_one_cannot_be() -> None:
    log: list[str] = []
    run = new_run([FakeQuery("a", batches=1)], [], FakeLock(log))
    run.follow()
    assert log == ["unlock"]
    log.clear()
    stuck = FakeQuery("stuck")

    def fail() -> None:
        raise WatersmeetError("it does not stop")

    stuck.stop = fail  # type: ignore[method-assign]
    run = new_run([stuck, FakeQuery("b", log)], [], FakeLock(log))
    with pytest.raises(WatersmeetError, match="it does not stop"):
        run.stop()
    assert log == ["stop b"], "the checkpoint is still in use"


def test_a_run_that_loses_its_lock_stops_its_queries() -> None:
    log: list[str] = []
    lock = FakeLock(log)
    run = new_run([FakeQuery("a", log, batches=1000)], [], lock)
    run.start()
    lock.lost = "another has it"
    for act in lock.acts:  # as the thread that renews a lease does
        act()
    assert log == ["start a", "stop a"]
    with pytest.raises(ConfigurationError, match="another has it"):
        run.follow()


def test_a_query_waits_until_all_whose_answers_it_reads_have_ended() -> None:
    log: list[str] = []
    first, second = (FakeQuery(name, log, batches=count) for name, count in (("first", 2), ("second", 4)))
    outer = FakeQuery("outer", log, awaits=("first", "second", "ended by an earlier run"))
    last = FakeQuery("last", log, awaits=("outer",))
    run = new_run([first, second, outer, last], [])
    run.start()
    assert log == ["start first", "start second"]
    run.follow()
    assert log == ["start first", "start second", "start outer", "start last"]
    assert max(outer.batches, last.batches) < 0, "all have come to their end"


def test_a_query_does_not_start_where_one_has_failed_whose_answers_it_reads() -> None:
    log: list[str] = []
    inner = FakeQuery("inner", log, failure=DataError("the disk is full"))
    run = new_run([inner, FakeQuery("outer", log, awaits=("inner",)), FakeQuery("other", log)], [])
    run.start()
    with pytest.raises(WatersmeetError, match="2 of 3 queries have failed"):
        run.follow()
    assert str(run.failures["inner"]) == "the disk is full"
    assert str(run.failures["outer"]) == "it reads the answers of inner, which has failed. Resume both"
    assert log == ["start inner", "start other"]


def test_what_waits_does_not_start_once_the_run_is_stopped() -> None:
    log: list[str] = []
    run = new_run([FakeQuery("inner", log, batches=0), FakeQuery("outer", log, awaits=("inner",))], [])
    run.start()
    run.stop()
    assert not run.is_running()
    assert "start outer" not in log
