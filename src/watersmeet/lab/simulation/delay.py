"""Message delays: how long a message takes from one node to the next."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from watersmeet.errors import ConfigurationError


@dataclass(frozen=True)
class Delay:
    """How long one message between two nodes takes; `bound_us` is the papers' delta."""

    kind: Literal["none", "constant", "random"] = "none"
    bound_us: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("none", "constant", "random"):
            raise ConfigurationError(f"a delay is none, constant or random, not {self.kind!r}")
        if self.bound_us < 0 or (self.kind == "none" and self.bound_us):
            raise ConfigurationError(f"a {self.kind} delay cannot be bounded by {self.bound_us} us")

    def over(self, hops: int, rng: random.Random) -> int:
        """The time that a number of hops takes; each hop draws its own delay."""
        if self.kind == "none":
            return 0
        if self.kind == "constant":
            return hops * self.bound_us
        return sum(rng.randint(0, self.bound_us) for _ in range(hops))


NO_DELAY = Delay()


def constant_delay(delay_us: int) -> Delay:
    return Delay("constant", delay_us)


def random_delay(bound_us: int) -> Delay:
    """Each hop takes a uniformly random time of at most `bound_us`."""
    return Delay("random", bound_us)
