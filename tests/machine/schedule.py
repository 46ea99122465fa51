"""A schedule: every choice of a run of the machine, drawn from one seed, and the trace of what happened.

Faults are drawn whether or not there are any left to strike, so the first faults of a schedule are the same
however many it is allowed: that is how a failing one is cut down.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Choice = TypeVar("Choice")

CRASH = 0.03  # of the driver, before and after each step that makes something durable


class DriverCrash(BaseException):
    """The end of the driver's process, at the point where it is raised: nothing may catch it on the way."""


class Schedule:
    """Draws what happens next; `most_faults` cuts the schedule down to its first ones."""

    def __init__(self, seed: int, most_faults: int | None = None) -> None:
        self.seed = seed
        self.random = random.Random(f"schedule {seed}")
        drawn = self.random.choice([0, 2, 4, 6, 8, 12, 16])
        self.faults_left = drawn if most_faults is None else min(drawn, most_faults)
        self.faults = 0
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []

    def note(self, text: str) -> None:
        """A line of the trace."""
        self.trace.append(text)

    def count(self, what: str, text: str) -> None:
        """A line of the trace about something that tests ask to have happened."""
        self.counts[what] += 1
        self.note(text)

    def choose(self, among: Sequence[Choice]) -> Choice:
        return self.random.choice(among)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def strikes(self, fault: str, probability: float) -> bool:
        """Whether a fault happens here."""
        if not self.chance(probability) or not self.faults_left:
            return False
        self.faults_left -= 1
        self.faults += 1
        self.counts[fault] += 1
        return True

    @contextmanager
    def durable(self, step: str) -> Iterator[None]:
        """A step that makes something durable: the driver may crash before it and after it."""
        if self.strikes("crash", CRASH):
            self.note(f"  CRASH before: {step}")
            raise DriverCrash
        yield
        self.note(f"  {step}")
        if self.strikes("crash", CRASH):
            self.note(f"  CRASH after: {step}")
            raise DriverCrash
