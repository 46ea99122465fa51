"""The WAN: queues, latency, jitter within its bound, and what is counted."""

from __future__ import annotations

import random

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation import Simulator
from watersmeet.lab.wan.network import Link, Wan
from watersmeet.plan.statistics import statistics


def wan_of(link: Link | dict[tuple[str, str], Link], seed: int = 0) -> Wan:
    return Wan(Simulator(), ("n1", "n2", "n3"), link, random.Random(seed))


def arrivals(wan: Wan, sends: list[tuple[int, str, str, float]]) -> list[tuple[int, int]]:
    """(arrival, number) of messages sent at instants, in order of arrival."""
    seen: list[tuple[int, int]] = []
    for number, (at_us, source, target, size) in enumerate(sends):

        def deliver(number: int) -> None:
            seen.append((wan.simulator.now_us, number))

        wan.simulator.at(at_us, wan.send, source, target, size, deliver, number)
    wan.simulator.run()
    return seen


def test_a_message_waits_for_the_one_before_it_in_its_own_direction_only() -> None:
    wan = wan_of(Link(latency_us=1_000_000, bytes_per_s=100))
    sends = [(0, "n1", "n2", 50.0), (0, "n1", "n2", 50.0), (0, "n2", "n1", 50.0), (0, "n1", "n3", 0.0)]
    assert arrivals(wan, sends) == [(1_000_000, 3), (1_500_000, 0), (1_500_000, 2), (2_000_000, 1)]
    there = wan.traffic["n1", "n2"]
    assert (there.bytes, there.messages, there.busy_us) == (100, 2, 1_000_000)
    assert there.transmission_us == 3_000_000
    assert wan.delay_bound_us() == 2_000_000
    assert (wan.total_bytes, wan.total_messages) == (150, 4)


def test_within_a_site_a_message_is_free_immediate_and_not_counted() -> None:
    wan = wan_of(Link(latency_us=10, bytes_per_s=1))
    assert arrivals(wan, [(5, "n1", "n1", 1e9)]) == [(5, 0)]
    assert wan.traffic == {}
    assert wan.delay_bound_us() == 0


def test_jitter_delays_within_its_bound_and_never_reorders() -> None:
    wan = wan_of(Link(latency_us=100, jitter_us=1000))
    sends = [(n * 10, "n1", "n2", 1.0) for n in range(300)]
    seen = arrivals(wan, sends)
    assert [number for _, number in seen] == list(range(300))
    delays = [at - number * 10 for at, number in seen]
    assert min(delays) >= 100
    assert 1000 < max(delays) <= 1100
    assert wan.delay_bound_us() == max(delays)
    assert seen == arrivals(wan_of(Link(latency_us=100, jitter_us=1000)), sends)


def test_one_way_described_is_both_ways_described() -> None:
    wan = wan_of({("n1", "n2"): Link(7)})
    assert wan.link("n2", "n1") == Link(7)
    with pytest.raises(ConfigurationError, match="no link joins the sites 'n1' and 'n3'"):
        wan.link("n1", "n3")
    with pytest.raises(ConfigurationError, match="no site 'n9': the sites are n1, n2, n3"):
        wan.link("n1", "n9")


def test_the_planners_links_become_the_labs() -> None:
    assert Link.of(statistics.Link(128_000, 0.025)) == Link(25_000, 128_000)
    assert Link.of(statistics.Link()) == Link(0, None)
    assert Link(bytes_per_s=3).transfer_us(1) == 333_334


@pytest.mark.parametrize("wrong", [{"latency_us": -1}, {"jitter_us": -1}, {"bytes_per_s": 0}])
def test_impossible_links_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        Link(**wrong)
