"""The overlay: put and get over a ring whose nodes come and go."""

from __future__ import annotations

import random
from typing import Any

from watersmeet.lab.overlay.chord.living_ring import LivingRing
from watersmeet.lab.overlay.network import Overlay


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
