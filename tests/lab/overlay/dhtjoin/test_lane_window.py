"""DHTJoin with little memory (extended version, section 2.2): who is dropped, and what is still found."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import get_args

import pytest

from tests.lab.overlay.dhtjoin.rings import join, pose, publish, quiet
from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.dhtjoin.lane_window import Held, LaneWindow, Shedding
from watersmeet.lab.overlay.dhtjoin.network import DhtJoinNetwork
from watersmeet.lab.overlay.dhtjoin.operators import Published
from watersmeet.lab.overlay.dhtjoin.protocol import Settings
from watersmeet.oracle.oracle import bag


class TestMemory:
    """Section 2.2: where a window does not fit, a load shedding strategy decides who leaves."""

    def window(self, shedding: Shedding, limit: int = 2) -> LaneWindow:
        return LaneWindow(limit, shedding)

    def arrive(
        self, window: LaneWindow, ts: int, key: int = 1, likely: Mapping[int, float] | None = None
    ) -> None:
        if not window.refuses(key):
            window.insert(Held(ts, key, Published("x", {}, ts, ts, 0), ts + 100))
            window.make_room(ts, lambda held: (likely or {}).get(int(str(held.key)), 1.0), random.Random(ts))

    def left(self, window: LaneWindow) -> list[int]:
        return [held.seq for held in window.everything()]

    def test_oldest_drops_what_expires_first(self) -> None:
        window = self.window("oldest")
        for ts in (5, 1, 7, 3):
            self.arrive(window, ts)
        assert self.left(window) == [5, 7]

    def test_newcomer_turns_arrivals_away_until_something_expires(self) -> None:
        window = self.window("newcomer")
        for ts in (1, 2, 3):
            self.arrive(window, ts)
        assert self.left(window) == [1, 2]
        window.expire(101)
        self.arrive(window, 4)
        assert self.left(window) == [2, 4]
        assert window.shed == 1

    def test_least_likely_keeps_the_values_that_find_partners(self) -> None:
        window = self.window("least likely")
        for ts, key in ((1, 8), (2, 9), (3, 8), (4, 9)):
            self.arrive(window, ts, key, {8: 5.0, 9: 0.5})
        assert self.left(window) == [1, 3]

    def test_random_drops_anyone(self) -> None:
        survivors = set()
        for start_ts in range(0, 400, 4):
            window = self.window("random")
            for ts in range(start_ts, start_ts + 3):
                self.arrive(window, ts)
            survivors |= {seq - start_ts for seq in self.left(window)}
            assert len(window) == 2
        assert survivors == {0, 1, 2}

    @pytest.mark.parametrize("shedding", get_args(Shedding))
    def test_no_lane_ever_exceeds_its_memory_and_answers_are_a_part_of_all(self, shedding: Shedding) -> None:
        def run_with(memory: int | None) -> DhtJoinNetwork:
            run = quiet(memory_tuples=memory, shedding=shedding)
            pose(run, join(["x.b = y.b"], window_us=50, select="x.a"))
            rng = random.Random(3)
            for at_us in range(1, 300):
                publish(run, rng.choice("xy"), at_us, b=rng.randrange(4), a=at_us)
            run.overlay.run()
            return run

        whole, limited = run_with(None), run_with(3)
        assert bag(limited.answers["q"]) < bag(whole.answers["q"])
        assert all(
            len(window) <= 3 for node in limited.protocol.nodes.values() for window in node.windows.values()
        )
        assert sum(limited.protocol.shed().values()) > 0

    def test_memory_and_policy_must_make_sense(self) -> None:
        with pytest.raises(ConfigurationError, match="at least one tuple"):
            Settings(memory_tuples=0)
        with pytest.raises(ConfigurationError, match="no shedding policy 'best'"):
            Settings(memory_tuples=1, shedding="best")  # type: ignore[arg-type]
