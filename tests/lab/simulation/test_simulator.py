"""The event loop: order, ties, time, delays."""

from __future__ import annotations

import random

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation import NO_DELAY, Delay, Simulator, constant_delay, random_delay


def test_events_run_by_time_then_priority_then_order_of_scheduling() -> None:
    simulator, seen = Simulator(), []
    simulator.at(5, seen.append, "late")
    simulator.at(2, seen.append, "second")
    simulator.at(2, seen.append, "third")
    simulator.at(2, seen.append, "first", priority=-1)
    assert simulator.run() == 4
    assert seen == ["first", "second", "third", "late"]
    assert simulator.now_us == 5


def test_an_action_may_schedule_more_and_sees_the_time_of_its_event() -> None:
    simulator, seen = Simulator(start_us=-10), []

    def twice() -> None:
        seen.append(simulator.now_us)
        if len(seen) < 2:
            simulator.after(7, twice)

    simulator.at(-3, twice)
    simulator.run()
    assert seen == [-3, 4]


def test_running_until_an_instant_leaves_the_rest_and_moves_the_clock() -> None:
    simulator, seen = Simulator(), []
    for time in (1, 2, 3):
        simulator.at(time, seen.append, time)
    simulator.run(until_us=2)
    assert (seen, simulator.now_us, simulator.pending) == ([1, 2], 2, 1)
    simulator.run(until_us=10)
    assert (seen, simulator.now_us) == ([1, 2, 3], 10)


def test_the_past_is_refused() -> None:
    simulator = Simulator(start_us=5)
    with pytest.raises(ConfigurationError, match="in the past"):
        simulator.at(4, print)


def test_delays_stay_within_their_bound_and_repeat_with_the_seed() -> None:
    assert NO_DELAY.over(9, random.Random(0)) == 0
    assert constant_delay(4).over(3, random.Random(0)) == 12
    drawn = [random_delay(10).over(1, random.Random(seed)) for seed in range(200)]
    assert min(drawn) == 0
    assert max(drawn) == 10
    assert drawn == [random_delay(10).over(1, random.Random(seed)) for seed in range(200)]


@pytest.mark.parametrize(("kind", "bound"), [("none", 3), ("constant", -1), ("sometimes", 1)])
def test_impossible_delays_are_refused(kind: str, bound: int) -> None:
    with pytest.raises(ConfigurationError):
        Delay(kind, bound)  # type: ignore[arg-type]
