"""The feed of each input of a query at its site: tuples in order, with their lifetimes and join values.

A site filters its own stream before anything is sent. A `Member` is a tuple that passed: its position in the
stream, its lifetime [ts, end) and its value in each attribute class. Under a ROWS window the end is not known
when the tuple comes, and tuples that the filters drop still count, so a feed has the times of all tuples.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.lab.simulation import row_order_key
from watersmeet.oracle.cast import cast_value
from watersmeet.oracle.evaluate import evaluate
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.sites.semijoin.oneway.items import Member
from watersmeet.query import NEVER, Input, JoinGraph, Query, Window
from watersmeet.query.values import canonical


@dataclass(frozen=True)
class Feed:
    """The tuples of one input: the members that pass its filters, and every ts by position."""

    members: tuple[Member, ...]
    window: Window
    times: tuple[int, ...]  # of all tuples of the stream, also of those that the filters drop


def feed_of(window: Window, arrivals: Sequence[tuple[int, tuple[Hashable, ...]]]) -> Feed:
    """A feed of synthetic tuples, each a ts and its values by class, in order of ts."""
    rows = window.counts_rows
    members = [
        Member(position, ts, NEVER if rows else window.end_us(ts), keys)
        for position, (ts, keys) in enumerate(arrivals)
    ]
    return _without_stillborn(members, window, [ts for ts, _ in arrivals])


def _without_stillborn(members: list[Member], window: Window, times: list[int]) -> Feed:
    """Leaves out tuples that one of the same instant pushes from a ROWS window: their lifetime is empty."""

    def has_lifetime(member: Member) -> bool:
        successor = window.successor(member.position) if window.counts_rows else len(times)
        return successor >= len(times) or times[successor] > member.ts

    return Feed(tuple(filter(has_lifetime, members)), window, tuple(times))


def feeds_of(query: Query, streams: Mapping[str, Sequence[Tuple]]) -> dict[str, Feed]:
    """The feed of each input of a query, given the tuples of its streams."""
    return {item.alias: _feed(query, item, streams.get(item.stream.name, ())) for item in query.inputs}


def _feed(query: Query, item: Input, tuples: Sequence[Tuple]) -> Feed:
    ordered = sorted(tuples, key=lambda tuple_: row_order_key(item.stream, tuple_.ts, tuple_.values))
    members = []
    for position, tuple_ in enumerate(ordered):
        rows = {item.alias: row_of(item, tuple_)}
        if all(evaluate(condition, rows) is True for condition in item.filters):
            keys = _keys(query.graph, item.alias, rows)
            if keys is not None:
                end = NEVER if item.window.counts_rows else item.window.end_us(tuple_.ts)
                members.append(Member(position, tuple_.ts, end, keys, tuple_))
    return _without_stillborn(members, item.window, [tuple_.ts for tuple_ in ordered])


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
