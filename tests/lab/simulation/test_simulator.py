"""The event loop: order, ties, time."""

from __future__ import annotations

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation import Simulator


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
