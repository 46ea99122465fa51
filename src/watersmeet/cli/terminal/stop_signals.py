"""Ctrl-C and SIGTERM as a request to stop, which the command follows as soon as it can."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class StopRequest:
    """Whether a stop was asked for, and by which signal."""

    number: int | None = None

    def __bool__(self) -> bool:
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """128 and the signal's number, as shells have it."""
        return 0 if self.number is None else 128 + self.number


@contextmanager
def catch_stop() -> Iterator[StopRequest]:
    """While open, the first signal asks for a stop; a second one interrupts at once.

    Open it once Spark runs: Spark installs a handler of its own, which fails the batch under way.
    """
    request = StopRequest()

    def note(number: int, frame: FrameType | None) -> None:
        if request:
            raise KeyboardInterrupt
        request.number = number

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
