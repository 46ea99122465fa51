"""Windows, and the one idea that makes all kinds alike: a tuple's life.

Under any window a tuple s is inside for the instants t with ts(s) <= t < end(s), where

    RANGE T        end = ts + T + 1 us       (T is inclusive and time is whole microseconds)
    TUMBLE T       end = the next multiple of T after ts
    ROWS n         end = ts of the tuple n places later in its stream
    TUMBLE n ROWS  end = ts of the first tuple of the next group of n
    UNBOUNDED      end = never

A combination (s1..sm) is an answer's candidate exactly when max ts(si) < min end(sj): the lives overlap,
and the overlap is the answer's own life. Places in a stream are taken in the order of ts; tuples of equal
ts are ordered by their values, column by column as declared, NULL first (arrival order must not matter,
since a replay may not repeat it).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from watersmeet.query.duration import format_duration

NEVER = 2**63 - 1  # an end no instant reaches
BEGINNING = -(2**63)  # a watermark no tuple is behind


class WindowKind(enum.Enum):
    """How a window bounds its stream."""

    RANGE = "RANGE"
    TUMBLE = "TUMBLE"
    ROWS = "ROWS"
    TUMBLE_ROWS = "TUMBLE ROWS"
    UNBOUNDED = "UNBOUNDED"


@dataclass(frozen=True)
class Window:
    """A window: its kind, and its size in microseconds or rows (0 for UNBOUNDED)."""

    kind: WindowKind = WindowKind.UNBOUNDED
    size: int = 0

    def __post_init__(self) -> None:
        if (self.size > 0) == (self.kind is WindowKind.UNBOUNDED):
            raise ValueError(f"a {self.kind.value} window cannot have size {self.size}")

    @property
    def counts_rows(self) -> bool:
        """Whether the size is a number of tuples."""
        return self.kind in (WindowKind.ROWS, WindowKind.TUMBLE_ROWS)

    @property
    def is_bounded(self) -> bool:
        return self.kind is not WindowKind.UNBOUNDED

    @property
    def duration_us(self) -> int | None:
        """The size in microseconds where the window is bounded by time."""
        return self.size if self.kind in (WindowKind.RANGE, WindowKind.TUMBLE) else None

    def end_us(self, ts_us: int) -> int:
        """When a tuple of this event time leaves the window; ROWS windows cannot say so from ts alone."""
        match self.kind:
            case WindowKind.RANGE:
                return ts_us + self.size + 1
            case WindowKind.TUMBLE:
                return (ts_us // self.size + 1) * self.size
            case WindowKind.UNBOUNDED:
                return NEVER
            case _:
                raise ValueError("the end of a tuple under a ROWS window depends on its successors")

    def successor(self, place: int) -> int:
        """For ROWS windows: the 0-based place whose tuple ends the life of the one at `place`."""
        if self.kind is WindowKind.ROWS:
            return place + self.size
        if self.kind is WindowKind.TUMBLE_ROWS:
            return (place // self.size + 1) * self.size
        raise ValueError("only ROWS windows count places")

    def pretty(self) -> str:
        match self.kind:
            case WindowKind.RANGE | WindowKind.TUMBLE:
                return f"[{self.kind.value} {format_duration(self.size).upper()}]"
            case WindowKind.ROWS:
                return f"[ROWS {self.size}]"
            case WindowKind.TUMBLE_ROWS:
                return f"[TUMBLE {self.size} ROWS]"
            case _:
                return "[UNBOUNDED]"


def range_us(size_us: int) -> Window:
    return Window(WindowKind.RANGE, size_us)


def tumble_us(size_us: int) -> Window:
    return Window(WindowKind.TUMBLE, size_us)


def rows(count: int) -> Window:
    return Window(WindowKind.ROWS, count)


def tumble_rows(count: int) -> Window:
    return Window(WindowKind.TUMBLE_ROWS, count)


UNBOUNDED = Window()
