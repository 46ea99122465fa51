"""A query's tuples as PMJoin's sites see them: when each is known, its lifetime, and what it joins on.

A site filters its own stream and knows the lifetime [ts, end) of each tuple (query/window.py) before it sends
anything. Under a ROWS window the end is known only when the tuple that displaces it arrives, so there the
site holds a tuple back until then: the papers' delayed probe. A tuple that is never displaced is known when
the input ends.

Example: `s [ROWS 1]` with tuples at 3 s and at 5 s: the first is known at 5 s; its lifetime is [3 s, 5 s).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.lab.wan.feed import Feed, feeds_of
from watersmeet.oracle.oracle import Tuple
from watersmeet.query import NEVER, Query

Keys = Mapping[int, Hashable]  # attribute class -> value
Member = tuple[int, Any]  # which input of the query, and its tuple


class Joined:
    """A tuple, or a combination of tuples, with its lifetime [t, end)."""

    __slots__ = ("end", "keys", "members", "t")

    def __init__(self, t: int, end: int, keys: Keys, members: tuple[Member, ...] = ()) -> None:
        self.t = t
        self.end = end
        self.keys = keys
        self.members = members


@dataclass(frozen=True)
class Arrival:
    """A tuple that its site may work with from `at_us` on."""

    at_us: int
    input: int  # its number in the query's FROM
    tuple_: Joined


def arrivals_of(query: Query, streams: Mapping[str, Sequence[Tuple]]) -> list[Arrival]:
    """All tuples that may take part in answers, in the order in which they are known."""
    return arrivals_from(query, feeds_of(query, streams))


def arrivals_from(query: Query, feeds: Mapping[str, Feed]) -> list[Arrival]:
    """The same, given each input's feed."""
    last = max((feed.times[-1] for feed in feeds.values() if feed.times), default=0)
    found = []
    for number, item in enumerate(query.inputs):
        feed, classes = feeds[item.alias], query.graph.classes_of(item.alias)
        for one in feed.members:
            end, at = one.end, one.ts
            if feed.window.counts_rows:
                successor = feed.window.successor(one.position)
                end = feed.times[successor] if successor < len(feed.times) else NEVER
                at = last if end == NEVER else end
            keys = {cls: one.keys[cls] for cls in classes}
            found.append(Arrival(at, number, Joined(one.ts, end, keys, ((number, one.payload),))))
    return sorted(found, key=lambda arrival: arrival.at_us)
