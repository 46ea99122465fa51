"""The overlay: grouped routing, and put and get over a ring whose nodes come and go."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

from watersmeet.lab.overlay.chord.living_ring import LivingRing
from watersmeet.lab.overlay.chord.ring import arc_start
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.network import Overlay
from watersmeet.lab.simulation import constant_delay


class Silent:
    """A protocol that keeps nothing and answers nothing."""

    def receive(self, node: int, message: Any, now_us: int, rng: random.Random) -> tuple[()]:
        return ()

    def hand_over(self, node: int, to: int, moves: Any) -> int:
        return 0

    def forget(self, node: int) -> int:
        return 0


def test_put_and_get_find_each_other_across_a_leave() -> None:
    overlay = Overlay(LivingRing.of(30), Silent())
    found: list[list[Any]] = []
    overlay.put(3, "colour", "blue")
    overlay.run()
    overlay.leave(overlay.owner("colour"))
    overlay.put(overlay.ring.nodes[5], "colour", "green")
    overlay.run()
    overlay.get(overlay.ring.nodes[9], "colour", found.append)
    overlay.get(overlay.ring.nodes[9], "taste", found.append)
    overlay.run()
    assert found == [["blue", "green"], []]
    assert overlay.counters.sent.sum() == overlay.counters.traffic.total()


def test_put_is_lost_with_a_silent_failure() -> None:
    overlay = Overlay(LivingRing.of(30), Silent())
    found: list[list[Any]] = []
    overlay.put(3, "colour", "blue")
    overlay.run()
    overlay.fail(overlay.owner("colour"))
    overlay.get(overlay.ring.nodes[0], "colour", found.append)
    overlay.run()
    assert found == [[]]


@dataclass(frozen=True)
class Note:
    """A message that says its key."""

    kind: ClassVar[str] = "note"
    key: str


class Arrivals(Silent):
    """Notes when and where messages arrive."""

    def __init__(self) -> None:
        self.at: dict[str, tuple[int, int]] = {}  # by key: node and time

    def receive(self, node: int, message: Note, now_us: int, rng: random.Random) -> tuple[()]:
        self.at[message.key] = (node, now_us)
        return ()


def test_a_group_goes_clockwise_from_stop_to_stop_and_every_hop_takes_its_time() -> None:
    """RJoin section 2: multiSend, whose messages share their route."""
    arrivals = Arrivals()
    overlay = Overlay(StableRing.of(64), arrivals, delay=constant_delay(10))
    ring, keys = overlay.ring, [f"key {n}" for n in range(6)]
    overlay.multi_send(3, [(Note(key), key) for key in keys])
    overlay.run()
    origin, here, hops = arc_start(ring, 3), 3, 0
    for key in sorted(keys, key=lambda key: (overlay.identifier(key) - origin) % (1 << ring.bits)):
        path = ring.path(here, overlay.identifier(key))
        here, hops = [here, *path][-1], hops + len(path)
        assert arrivals.at[key] == (overlay.owner(key), 10 * hops)
    assert overlay.counters.traffic["note"] == hops > len(keys)
