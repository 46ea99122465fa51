"""What the semijoin protocols join: tuples of a stream, and results of joining some of the streams.

A `Member` is a tuple at its home site: its place in the stream, its life [ts, end) and its value in each
attribute class. Under a window of rows the end is not known when the tuple comes; `ending` says later which
places ended and when. An `Item` is one or more members that agree: t is the largest ts, end the smallest end
known so far. Members of one item are kept in the order in which their streams were joined.

Streams are cut into intervals of tau microseconds; interval k is [k tau, (k + 1) tau).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from watersmeet.oracle.cast import cast_value
from watersmeet.oracle.evaluate import evaluate
from watersmeet.oracle.oracle import Tuple
from watersmeet.query import NEVER, Input, JoinGraph, Query, Window
from watersmeet.query.values import canonical, order_key

Key = Hashable
Ended = tuple[int, int]  # the number of an item, and when it ends


class Member(NamedTuple):
    """A tuple of one input; `keys` has its value in each class of the join graph, or None."""

    place: int
    ts: int
    end: int  # NEVER while not known
    keys: tuple[Hashable, ...]
    payload: Any = None


class Item(NamedTuple):
    """Members that agree, as one side of a join sees them; `number` is given by the side's home site."""

    t: int
    end: int
    number: int
    members: tuple[Member, ...]


def item_of(member: Member) -> Item:
    return Item(member.ts, member.end, member.place, (member,))


@dataclass(frozen=True)
class Feed:
    """All that comes of one input: the members that pass its filters, and every ts by place."""

    members: tuple[Member, ...]
    window: Window
    times: tuple[int, ...]  # of all tuples of the stream, also of those that the filters drop

    def by_interval(self, interval_us: int) -> dict[int, list[Item]]:
        """The members that come in each interval."""
        found: dict[int, list[Item]] = {}
        for member in self.members:
            found.setdefault(member.ts // interval_us, []).append(item_of(member))
        return found

    def ending(self, interval_us: int) -> dict[int, list[Ended]]:
        """Under a window of rows: which members an interval's arrivals end, and when."""
        found: dict[int, list[Ended]] = {}
        if self.window.counts_rows:
            for member in self.members:
                successor = self.window.successor(member.place)
                if successor < len(self.times):
                    end = self.times[successor]
                    found.setdefault(end // interval_us, []).append((member.place, end))
        return found


def feed_of(window: Window, arrivals: Sequence[tuple[int, tuple[Hashable, ...]]]) -> Feed:
    """A feed of synthetic tuples, each a ts and its values by class, in order of ts."""
    rows = window.counts_rows
    members = [
        Member(place, ts, NEVER if rows else window.end_us(ts), keys)
        for place, (ts, keys) in enumerate(arrivals)
    ]
    return _feed_with_lives(members, window, [ts for ts, _ in arrivals])


def _feed_with_lives(members: list[Member], window: Window, times: list[int]) -> Feed:
    """Leaves out what a tuple of its own instant pushes from a window of rows: it never lives."""

    def lives(member: Member) -> bool:
        successor = window.successor(member.place) if window.counts_rows else len(times)
        return successor >= len(times) or times[successor] > member.ts

    return Feed(tuple(filter(lives, members)), window, tuple(times))


def feeds_of(query: Query, streams: Mapping[str, Sequence[Tuple]]) -> dict[str, Feed]:
    """The feed of each input of a query, given the tuples of its streams."""
    return {item.alias: _feed(query, item, streams.get(item.stream.name, ())) for item in query.inputs}


def _feed(query: Query, item: Input, tuples: Sequence[Tuple]) -> Feed:
    ordered = sorted(tuples, key=lambda tuple_: _place_key(item, tuple_))
    members = []
    for place, tuple_ in enumerate(ordered):
        rows = {item.alias: row_of(item, tuple_)}
        if all(evaluate(condition, rows) is True for condition in item.filters):
            keys = _keys(query.graph, item.alias, rows)
            if keys is not None:
                end = NEVER if item.window.counts_rows else item.window.end_us(tuple_.ts)
                members.append(Member(place, tuple_.ts, end, keys, tuple_))
    return _feed_with_lives(members, item.window, [tuple_.ts for tuple_ in ordered])


def _place_key(item: Input, tuple_: Tuple) -> tuple[Any, ...]:
    """The order of places: ts, then the values of scalar columns as declared."""
    stream = item.stream
    scalars = [
        column.name
        for column in stream.columns
        if column.name != stream.event_time and not column.type.lower().startswith(("array", "struct", "map"))
    ]
    return (tuple_.ts, *(order_key(tuple_.values[name]) for name in scalars))


def row_of(item: Input, tuple_: Tuple) -> Mapping[str, Any]:
    """A tuple's values by column, its event time among them."""
    event_time = item.stream.event_time
    return {**tuple_.values, event_time: tuple_.ts} if event_time else tuple_.values


def _keys(graph: JoinGraph, alias: str, rows: Any) -> tuple[Hashable, ...] | None:
    """The value in each class, None where the input has no part in it; no keys if one is NULL."""
    keys: list[Hashable] = []
    for cls in graph.classes:
        attribute = cls.of(alias)
        if attribute is None:
            keys.append(None)
            continue
        value = evaluate(attribute.expr, rows)
        if value is None:
            return None
        value = cast_value(value, cls.type) if cls.type else value
        if value is None:
            return None
        keys.append(canonical(value))
    return tuple(keys)


def shared_classes(graph: JoinGraph, source: Sequence[str], target: Sequence[str]) -> tuple[int, ...]:
    """The classes by which two sets of inputs meet."""
    return tuple(
        index
        for index, cls in enumerate(graph.classes)
        if not set(cls.aliases).isdisjoint(source) and not set(cls.aliases).isdisjoint(target)
    )


def key_getter(graph: JoinGraph, side: Sequence[str], classes: Sequence[int]) -> Callable[[Item], Key]:
    """How to read the join value of an item whose members are of these inputs, in this order."""
    places = [
        (next(n for n, alias in enumerate(side) if alias in graph.classes[index].aliases), index)
        for index in classes
    ]
    if len(places) == 1:
        ((member, cls),) = places
        return lambda item: item.members[member].keys[cls]
    return lambda item: tuple([item.members[member].keys[cls] for member, cls in places])
