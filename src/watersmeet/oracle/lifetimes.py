"""When tuples leave their windows: the table of windows as naive code.

What the engine takes from a window's own methods is said a second time here, so that it is checked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from watersmeet.errors import QueryError
from watersmeet.oracle.arrivals import Tuple
from watersmeet.query import (
    NEVER,
    Input,
    PartitionRowsWindow,
    RangeWindow,
    RowsWindow,
    Stream,
    TumbleRowsWindow,
    TumbleWindow,
    UnboundedWindow,
    Window,
)
from watersmeet.query.values import canonical, order_key


def ends_of(item: Input, tuples: Sequence[Tuple]) -> list[tuple[Tuple, int]]:
    """Each tuple with the instant it leaves its window; one that was not written changes nothing."""
    item = item.as_written()
    if not item.window.counts_rows:
        return [(tuple_, _end(item.window, tuple_.ts)) for tuple_ in tuples]
    ordered = sorted(tuples, key=lambda tuple_: _row_order(item.stream, tuple_))
    if isinstance(item.window, PartitionRowsWindow):
        return [
            pair for own in _by_value(item.window, ordered) for pair in _until_later(own, item.window.size)
        ]
    ends = []
    for number, tuple_ in enumerate(ordered):
        successor = _successor(item.window, number)
        ends.append((tuple_, ordered[successor].ts if successor < len(ordered) else NEVER))
    return ends


def _by_value(window: PartitionRowsWindow, ordered: Sequence[Tuple]) -> list[list[Tuple]]:
    """The rows of each value of the window's columns; NULL is a value like any other."""
    groups: dict[Hashable, list[Tuple]] = {}
    for tuple_ in ordered:
        value = canonical([tuple_.values.get(name, tuple_.ts) for name in window.columns])
        groups.setdefault(value, []).append(tuple_)
    return list(groups.values())


def _until_later(ordered: Sequence[Tuple], size: int) -> list[tuple[Tuple, int]]:
    """Rows that each end when the row so many places later comes."""
    ends = [tuple_.ts for tuple_ in ordered[size:]]
    return list(zip(ordered, ends + [NEVER] * (len(ordered) - len(ends)), strict=True))


def _end(window: Window, ts: int) -> int:
    """The semantics of time windows, said a second time: what the engine takes from a window is checked."""
    match window:
        case RangeWindow():
            return min(NEVER, ts + window.size + 1)
        case TumbleWindow():
            return min(NEVER, (ts // window.size + 1) * window.size)
        case UnboundedWindow():
            return NEVER
    raise _unknown(window)


def _successor(window: Window, row: int) -> int:
    """The number of the row at whose event time this one ends."""
    match window:
        case RowsWindow():
            return row + window.size
        case TumbleRowsWindow():
            return (row // window.size + 1) * window.size
    raise _unknown(window)


def _unknown(window: Window) -> QueryError:
    return QueryError(
        f"the oracle has not been told when a tuple leaves {window.pretty()}: say so in lifetimes.py, "
        "independently of the window's own code"
    )


def _row_order(stream: Stream, tuple_: Tuple) -> tuple[Any, ...]:
    """The order of a stream's rows: ts, then values column by column, NULL first, nested ones aside."""
    scalars = [
        column.name
        for column in stream.columns
        if column.name != stream.event_time and not column.type.lower().startswith(("array", "struct", "map"))
    ]
    return (tuple_.ts, *(order_key(tuple_.values[name]) for name in scalars))
