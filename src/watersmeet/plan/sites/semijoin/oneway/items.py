"""What the semijoin protocols join: tuples of a stream, and results of joining some of the streams.

A `Member` is a tuple of one input. An `Item` is one or more members that agree: t is the largest ts, end the
smallest end known so far. Members of one item are kept in the order in which their streams were joined. Under
a ROWS window the home site says later which members ended and when.

Streams are cut into intervals of tau microseconds; interval k is [k tau, (k + 1) tau).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from watersmeet.query import JoinGraph

Key = Hashable
Ended = tuple[int, int]  # the number of an item, and when it ends


class Member(NamedTuple):
    """A tuple of one input; `keys` has its value in each class of the join graph, or None."""

    position: int  # in its stream
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
    return Item(member.ts, member.end, member.position, (member,))


def shared_classes(graph: JoinGraph, source: Sequence[str], target: Sequence[str]) -> tuple[int, ...]:
    """The classes by which two sets of inputs meet."""
    return tuple(
        index
        for index, cls in enumerate(graph.classes)
        if not set(cls.aliases).isdisjoint(source) and not set(cls.aliases).isdisjoint(target)
    )


def key_getter(graph: JoinGraph, side: Sequence[str], classes: Sequence[int]) -> Callable[[Item], Key]:
    """How to read the join value of an item whose members are of these inputs, in this order."""
    positions = [
        (next(n for n, alias in enumerate(side) if alias in graph.classes[index].aliases), index)
        for index in classes
    ]
    if len(positions) == 1:
        ((member, cls),) = positions
        return lambda item: item.members[member].keys[cls]
    return lambda item: tuple([item.members[member].keys[cls] for member, cls in positions])
