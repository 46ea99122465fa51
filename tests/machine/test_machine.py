"""Every schedule of crashes, repeated tasks and zombies ends with each answer once in every sink."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.machine.changed import run_changed
from tests.machine.machine import VARIANTS, Outcome, run_schedule
from watersmeet.serve import server

pytestmark = pytest.mark.slow

SCHEDULES, CHANGED, MANY = 300, 15, 10_000
CHUNKS = 10  # tests that share them, one for each variant of a case
KINDS = (
    "crash",
    "redo",
    "dead task",
    "speculation",
    "zombie",
    "moved",
    "lost cache",
    "published before",
    "stop",
)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # processes crash here, disks do not
    monkeypatch.setattr(server, "POLL_S", 0.0)
    monkeypatch.setattr(server, "WAIT_POLL_S", 0.0)
    monkeypatch.setattr(server, "QUIET_S", 0.0)


@pytest.fixture(scope="module")
def outcomes() -> dict[int, Outcome]:
    """By seed, what the schedules came to so far."""
    return {}


@pytest.mark.parametrize("chunk", range(CHUNKS), ids=VARIANTS)
def test_each_answer_is_in_every_sink_once(
    chunk: int, outcomes: dict[int, Outcome], request: pytest.FixtureRequest, long_mode: bool
) -> None:
    chosen = request.config.getoption("--schedule-seed")
    if chosen is not None:
        if chosen % CHUNKS == chunk:
            print("\n".join(check_schedule(chosen).trace))  # shown with -s
        return
    for seed in range(chunk, MANY if long_mode else SCHEDULES, CHUNKS):
        outcome = check_schedule(seed)
        outcomes[seed] = Outcome(outcome.found, outcome.expected, outcome.counts, ())


def check_schedule(seed: int) -> Outcome:
    """Runs a schedule; one that fails is cut down to its first faults, and says how to run it again."""
    failure = failure_of(seed)
    if isinstance(failure, Outcome):
        return failure
    for most_faults in range(16):
        shorter = failure_of(seed, most_faults)
        if isinstance(shorter, str):
            pytest.fail(
                f"{shorter}\nagain: {command(seed)}\n(this is the trace with its first {most_faults} faults)"
            )
    pytest.fail(f"{failure}\nagain: {command(seed)}")


def failure_of(seed: int, most_faults: int | None = None) -> Outcome | str:
    """What is wrong, with the trace; the outcome if nothing is."""
    try:
        outcome = run_schedule(seed, most_faults)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        return f"{notes}\nschedule {seed}: {type(error).__name__}: {error}"
    if not outcome.difference:
        return outcome
    return "\n".join([*outcome.trace, f"schedule {seed}: {outcome.difference}"])


def command(seed: int) -> str:
    return f"python -m pytest tests/machine --schedule-seed {seed} -s"


def test_schedules_reach_what_they_are_about(outcomes: dict[int, Outcome]) -> None:
    """A machine in which nothing goes wrong, or that has no answers to lose, proves nothing."""
    if len(outcomes) < SCHEDULES:
        pytest.skip("only some schedules were run")
    reached: Counter[str] = Counter()
    for outcome in outcomes.values():
        reached.update(set(outcome.counts))
        reached["answers"] += outcome.has_answers
    assert reached["answers"] >= 0.8 * len(outcomes)
    assert reached["crash"] >= 0.5 * len(outcomes)
    assert reached["redo"] >= 0.4 * len(outcomes)
    assert reached["stopped query"], "one schedule in ten is of a shared dataflow"
    assert not [kind for kind in KINDS if reached[kind] < 0.03 * len(outcomes)], reached


def test_a_schedule_is_its_seed() -> None:
    first, second = run_schedule(4), run_schedule(4)
    assert first.trace == second.trace
    assert first.found == second.found
    assert "--schedule-seed 4" in command(4)


def test_a_query_that_is_changed_gives_each_batch_once(long_mode: bool) -> None:
    """Whatever crashes on the way: each sink has the answers of a batch from one query that has tried it."""
    outcomes = []
    for seed in range(MANY if long_mode else CHANGED):
        outcome = run_changed(seed)
        assert not outcome.difference, "\n".join([*outcome.trace, f"seed {seed}: {outcome.difference}"])
        outcomes.append(outcome)
    reached: Counter[str] = Counter()
    for outcome in outcomes:
        reached.update(set(outcome.counts))
    assert sum(outcome.has_both for outcome in outcomes) > len(outcomes) // 5
    for kind in ("crash", "redo", "changed within a batch", "changed between batches"):
        assert reached[kind] > 0.05 * len(outcomes), reached
