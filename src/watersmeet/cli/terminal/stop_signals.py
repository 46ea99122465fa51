"""Ctrl-C and SIGTERM as a wish to stop, which the command fulfils when it can."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class StopWish:
    """Whether a stop was asked for, and by which signal."""

    number: int | None = None

    def __bool__(self) -> bool:
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """128 and the signal's number, as shells have it."""
        return 0 if self.number is None else 128 + self.number


@contextmanager
def catch_stop() -> Iterator[StopWish]:
    """While open, the first signal is a wish; a second one interrupts, for who will not wait.

    To be opened once Spark runs: it puts a handler of its own in place, which fails the batch under way.
    """
    wish = StopWish()

    def note(number: int, frame: FrameType | None) -> None:
        if wish:
            raise KeyboardInterrupt
        wish.number = number

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
