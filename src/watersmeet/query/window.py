"""Windows, and the one idea that makes all kinds alike: a tuple's lifetime.

Under any window a tuple s is inside for the instants t with ts(s) <= t < end(s), where

    RANGE T        end = ts + T + 1 us       (T is inclusive and time is whole microseconds)
    TUMBLE T       end = the next multiple of T after ts
    ROWS n         end = ts of the tuple n rows later in its stream
    TUMBLE n ROWS  end = ts of the first tuple of the next n
    PARTITION BY k ROWS n  end = ts of the tuple n rows later among those of its value of k, NULL being one
    UNBOUNDED      end = never

A combination (s1..sm) is an answer's candidate exactly when max ts(si) < min end(sj): the lifetimes overlap,
and the overlap is the answer's own lifetime. Rows of a stream are numbered in the order of ts; tuples of
equal ts are ordered by their values, column by column as declared, NULL first (arrival order must not matter,
since a replay may not repeat it).

Instants end at `NEVER`: an end that would come later is `NEVER`, a position before the first is the first. So
a tuple at `NEVER` itself is inside of no window.

A kind is one class here, and all that the rest of the engine knows of it are the methods of `Window`. Two
properties hold of every kind, and expiry rests on them: a tuple is inside at its own ts or never, and of two
tuples of a stream (under PARTITION BY, of a value) the earlier one never ends later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from watersmeet.query.duration import UNITS_US, format_duration
from watersmeet.query.expression import quote_name

NEVER = 2**63 - 1  # an end no instant reaches
BEGINNING = -(2**63)  # a watermark no tuple is behind

US_PER_S = 1_000_000

Numbers = npt.NDArray[np.int64]
Position = TypeVar("Position", int, Numbers)  # one, or an array of them


class Window(ABC):
    """What a window means: when tuples end, when they may be forgotten, how it is written.

    A *position* is what the window counts by: an event time in microseconds, or for windows that count rows
    the number of a tuple in its stream, from 0. *Progress* is counted in the same way: it is the watermark,
    or the newest row number that is known. Methods take one position or an array of them.
    """

    name: ClassVar[str]  # as it is stored; a name of an old version keeps its meaning
    counts_rows: ClassVar[bool] = False  # whether later rows decide when a tuple ends
    numbers_rows: ClassVar[bool] = False  # whether positions are row numbers of the stream
    is_bounded: ClassVar[bool] = True

    @property
    def duration_us(self) -> int | None:
        """The longest a tuple stays inside after its ts, where the window is bounded by time."""
        return None

    @property
    def row_count(self) -> int | None:
        """The most rows that are inside, where the window counts those of the stream."""
        return None

    @property
    def partition(self) -> tuple[str, ...]:
        """The columns by whose values rows are counted, each value by itself."""
        return ()

    def end_us(self, ts: Position) -> Position:
        """When a tuple of this event time leaves the window; row windows cannot say so from ts alone."""
        raise ValueError("the end of a tuple under a ROWS window depends on its successors")

    def known_end_us(self, ts: Position) -> Position:
        """When a tuple leaves as far as its event time tells: never, where later rows decide."""
        return self.end_us(ts)

    def successor(self, row: Position) -> Position:
        """For windows that count rows: the number of the row at whose event time this one ends."""
        raise ValueError("only ROWS windows number rows")

    @abstractmethod
    def expires_at(self, position: Position) -> Position:
        """The progress from which on a tuple here, and every one before it, may be forgotten."""

    @abstractmethod
    def first_inside(self, now: Position) -> Position:
        """The first position that is inside when the next tuple of the stream, or the instant, is `now`."""

    @abstractmethod
    def expected_tuples(self, rate_per_s: float) -> float | None:
        """How many tuples of a stream are inside on average; None if there is no bound."""

    @abstractmethod
    def describe_retention(self) -> str:
        """How long its tuples are kept, in words that follow "keep"."""

    @abstractmethod
    def pretty(self) -> str:
        """The window as it is written in a query."""

    def to_json(self) -> list[str | int]:
        """Its name and size; `window_from_json` reads it."""
        return [self.name, getattr(self, "size", 0)]


@dataclass(frozen=True)
class _Sized(Window):
    size: int

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise ValueError(f"a {self.name} window cannot have size {self.size}")


@dataclass(frozen=True)
class TimeWindow(_Sized):
    """A window whose tuples end so long after their event time; the size is in microseconds."""

    @property
    def duration_us(self) -> int:
        return self.size

    def expires_at(self, position: Position) -> Position:
        return self.end_us(position)

    def pretty(self) -> str:
        return f"[{self.name} {format_duration(self.size).upper()}]"


@dataclass(frozen=True)
class RangeWindow(TimeWindow):
    """`[RANGE 10 MINUTES]`: what is at most so old."""

    name = "RANGE"

    def end_us(self, ts: Position) -> Position:
        return _at_most(ts, NEVER - (self.size + 1)) + (self.size + 1)

    def first_inside(self, now: Position) -> Position:
        return _at_least(now, BEGINNING + self.size) - self.size

    def expected_tuples(self, rate_per_s: float) -> float:
        return rate_per_s * self.size / US_PER_S

    def describe_retention(self) -> str:
        return f"for {format_duration(self.size)} behind the watermark"


@dataclass(frozen=True)
class TumbleWindow(TimeWindow):
    """`[TUMBLE 10 MINUTES]`: what is of the same ten minutes, counted from the epoch."""

    name = "TUMBLE"

    def end_us(self, ts: Position) -> Position:
        rest = self.size - ts % self.size
        return _at_most(ts, NEVER - rest) + rest

    def first_inside(self, now: Position) -> Position:
        passed = now % self.size
        return _at_least(now, BEGINNING + passed) - passed

    def expected_tuples(self, rate_per_s: float) -> float:
        return rate_per_s * self.size / (2 * US_PER_S)

    def describe_retention(self) -> str:
        return f"until the watermark reaches the end of its {format_duration(self.size)}"


@dataclass(frozen=True)
class RowWindow(_Sized):
    """A window whose tuples end when later rows of their stream come; the size is a number of rows."""

    counts_rows = True
    numbers_rows = True

    @property
    def row_count(self) -> int:
        return self.size

    def known_end_us(self, ts: Position) -> Position:
        return _alike(ts, NEVER)

    def expires_at(self, position: Position) -> Position:
        return self.successor(position)


@dataclass(frozen=True)
class RowsWindow(RowWindow):
    """`[ROWS 100]`: the last hundred."""

    name = "ROWS"

    def successor(self, row: Position) -> Position:
        return row + self.size

    def first_inside(self, now: Position) -> Position:
        return now - self.size

    def expected_tuples(self, rate_per_s: float) -> float:
        return float(self.size)

    def describe_retention(self) -> str:
        return f"the last {self.size} tuples"

    def pretty(self) -> str:
        return f"[ROWS {self.size}]"


@dataclass(frozen=True)
class TumbleRowsWindow(RowWindow):
    """`[TUMBLE 100 ROWS]`: the newest hundred, which may still be filling."""

    name = "TUMBLE ROWS"

    def successor(self, row: Position) -> Position:
        return (row // self.size + 1) * self.size

    def first_inside(self, now: Position) -> Position:
        return (now - 1) // self.size * self.size

    def expected_tuples(self, rate_per_s: float) -> float:
        return self.size / 2

    def describe_retention(self) -> str:
        return f"the newest group of {self.size} tuples"

    def pretty(self) -> str:
        return f"[TUMBLE {self.size} ROWS]"


@dataclass(frozen=True)
class PartitionRowsWindow(_Sized):
    """`[PARTITION BY currency ROWS 1]`: the last ones of each value; the size is their number."""

    columns: tuple[str, ...]

    name = "PARTITION ROWS"
    counts_rows = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.columns:
            raise ValueError("a PARTITION ROWS window needs a column")

    @property
    def partition(self) -> tuple[str, ...]:
        return self.columns

    def known_end_us(self, ts: Position) -> Position:
        return _alike(ts, NEVER)

    def expires_at(self, position: Position) -> Position:
        return _alike(position, NEVER)

    def first_inside(self, now: Position) -> Position:
        return _alike(now, BEGINNING // 2)

    def expected_tuples(self, rate_per_s: float) -> None:
        return None

    def describe_retention(self) -> str:
        return f"the last {self.size} tuples of each {self._names}"

    def pretty(self) -> str:
        return f"[PARTITION BY {self._names} ROWS {self.size}]"

    def to_json(self) -> list[str | int]:
        return [self.name, self.size, *self.columns]

    @property
    def _names(self) -> str:
        return ", ".join(map(quote_name, self.columns))


@dataclass(frozen=True)
class UnboundedWindow(Window):
    """`[UNBOUNDED]`: everything."""

    name = "UNBOUNDED"
    is_bounded = False

    def end_us(self, ts: Position) -> Position:
        return _alike(ts, NEVER)

    def expires_at(self, position: Position) -> Position:
        return _alike(position, NEVER)

    def first_inside(self, now: Position) -> Position:
        return _alike(now, BEGINNING // 2)

    def expected_tuples(self, rate_per_s: float) -> None:
        return None

    def describe_retention(self) -> str:
        return "for ever"

    def pretty(self) -> str:
        return "[UNBOUNDED]"


UNBOUNDED = UnboundedWindow()
WINDOW_KINDS: tuple[type[Window], ...] = (
    RangeWindow,
    TumbleWindow,
    RowsWindow,
    TumbleRowsWindow,
    PartitionRowsWindow,
    UnboundedWindow,
)


def range_us(size_us: int) -> Window:
    return RangeWindow(size_us)


def tumble_us(size_us: int) -> Window:
    return TumbleWindow(size_us)


def rows(count: int) -> Window:
    return RowsWindow(count)


def tumble_rows(count: int) -> Window:
    return TumbleRowsWindow(count)


def last_of_each(columns: Sequence[str], count: int = 1) -> Window:
    return PartitionRowsWindow(count, tuple(columns))


def window_from_json(fields: list[str | int]) -> Window:
    """A window from its name and size; KeyError or ValueError if there is none."""
    name, size, *columns = fields
    if name == PartitionRowsWindow.name:
        return PartitionRowsWindow(int(size), tuple(map(str, columns)))
    if columns:
        raise ValueError(f"a {name} window has no columns")
    kind = {kind.name: kind for kind in WINDOW_KINDS}[str(name)]
    if not kind.is_bounded and size:
        raise ValueError(f"a {name} window cannot have size {size}")
    return kind(size) if kind.is_bounded else kind()  # type: ignore[call-arg]


def name_window(window: Window) -> str:
    """A window inside of names that state is kept under: part of the state format.

    >>> name_window(range_us(90_000_000))
    '[RANGE 90 S]'
    """
    if not window.is_bounded:
        return f"[{window.name}]"
    name, size = window.to_json()
    if window.counts_rows:
        return f"[{name} {size}]"
    unit_us, unit = max((unit_us, unit) for unit, unit_us in UNITS_US.items() if int(size) % unit_us == 0)
    return f"[{name} {int(size) // unit_us} {unit.upper()}]"


def _at_most(position: Position, bound: Position | int) -> Position:
    if isinstance(position, int):
        return min(position, int(bound))
    lower: Numbers = np.minimum(position, bound)
    return lower


def _at_least(position: Position, bound: Position | int) -> Position:
    if isinstance(position, int):
        return max(position, int(bound))
    higher: Numbers = np.maximum(position, bound)
    return higher


def _alike(position: Position, value: int) -> Position:
    """One value, or an array of it."""
    return value if isinstance(position, int) else np.full(np.shape(position), value, np.int64)
