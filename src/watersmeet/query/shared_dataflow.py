"""A ring: many queries over shared streams, as one dataflow of levels.

A *feed* is what is sent of a stream: its tuples, once, routed by the value of one attribute. A *relation* is
what a level keeps and probes: a feed's tuples under a window, or the results of a join of an earlier level,
routed by the value of one of its columns. A *join* finds the combinations of relations of its level that are
routed by one value; its results live while all of their tuples do, become relations of later levels, and are
the candidates of the queries that end there. An *tail* is what one query still asks of its candidates.

    a.x = b.x, b.y = c.y     level 1: j1 = a by x, b by x     level 2: j2 = j1 by b.y, c by y     ends: j2

Whatever several queries have in common has one name and is there once. Names say all that the rows depend
on, so what a ring keeps under a name still fits when the set of queries changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from watersmeet.query.window import NEVER, Window

SINCE = "__since"  # int64: the micro-batch in which a tuple arrived, or the earliest of its parts did
END = "__end"  # int64: when a join's result is over
BEHIND = "__behind"  # int64: by which streams' progress the tuple is late, a bit for each (`Ring.streams`)


@dataclass(frozen=True)
class KeyColumn:
    """A column of a feed that is compared: an expression over one stream, cast to the type of comparison."""

    name: str  # the stream's own column where it is one, of the same type
    sql: str  # over the stream under its own name
    type: str | None  # None: unknown, not cast


@dataclass(frozen=True)
class Feed:
    """Tuples of a stream, sent once for all who need them by this attribute; NULL is not sent at all."""

    name: str
    stream: str
    route: str  # the key column by whose hash they are sent
    keys: tuple[KeyColumn, ...]  # all that are compared anywhere, the route among them
    columns: tuple[str, ...]  # of the stream, that answers or later conditions need
    levels: tuple[int, ...]  # where they are needed, ascending


@dataclass(frozen=True)
class Relation:
    """Rows a level keeps: of a feed under a window, or results of a join (`window` is None).

    The columns of a stream's tuples are known to joins as `slot.column`; those of results have such names
    already, from their own parts.
    """

    name: str
    level: int
    source: str  # a feed or a join
    window: Window | None
    slot: str | None
    route: str  # as the source names it
    keys: tuple[str, ...]  # columns by which it is probed, as the source names them, the route first
    columns: tuple[str, ...]  # to keep beside the keys, as the source names them
    streams: tuple[str, ...]  # those of all queries it serves: when a row is over depends on their progress

    def qualified(self, column: str) -> str:
        return column if self.slot is None else f"{self.slot}.{column}"


@dataclass(frozen=True)
class Way:
    """A relation that results may go on to, and the feeds whose tuples they would meet there."""

    relation: str
    meets: tuple[str, ...]


@dataclass(frozen=True)
class Expected:
    """What statistics say of a feed that results may go on to meet."""

    feed: str
    live: float  # tuples that are alive at a time
    distinct: float  # values of its route


@dataclass(frozen=True)
class Join:
    """Combinations of a row of each member whose lives overlap, equal in each pair of qualified columns."""

    name: str
    level: int
    members: tuple[str, ...]  # relations; one alone passes its rows on
    equalities: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]  # qualified, of the results
    slots: tuple[str, ...]  # the tuples a result is made of; each brings `slot.__behind`
    orders: tuple[tuple[str, tuple[str, ...]], ...] = ()  # by new member, in which others are probed
    ways: tuple[Way, ...] = ()  # where each result goes on to one of several relations, not to all: which


@dataclass(frozen=True)
class Test:
    """A comparison that is exact without Spark: of a qualified column with a constant, or another column."""

    column: str
    op: str  # = < <= > >= <>
    constant: int | str | bool | None = None  # microseconds for times, days for dates
    other: str | None = None


@dataclass(frozen=True)
class QueryTail:
    """What one query asks of the results of its last join, and from which micro-batch to before which."""

    query: str
    number: int  # of the query, never given again
    join: str
    streams: tuple[str, ...]
    slots: tuple[tuple[str, str], ...]  # (alias, slot)
    tests: tuple[Test, ...] = ()
    conditions: tuple[str, ...] = ()  # left to Spark, as the query has them
    # (name, qualified column or answer_time); None: the SELECT list is left to Spark
    outputs: tuple[tuple[str, str], ...] | None = None
    payload: tuple[str, ...] = ()  # qualified columns that Spark needs, where something is left to it
    since: int = 0
    until: int = NEVER

    @property
    def template(self) -> TailTemplate:
        """The tail without its query and constants: tails of one template are told apart by a table."""
        tests = tuple(replace(test, constant=None) for test in self.tests)
        alias_slots = self.slots if self.outputs is None or self.conditions else ()
        return TailTemplate(
            self.join, self.streams, alias_slots, tests, self.conditions, self.outputs, self.payload
        )


@dataclass(frozen=True)
class TailTemplate:
    """What tails that differ only in constants have in common."""

    join: str
    streams: tuple[str, ...]
    slots: tuple[tuple[str, str], ...]
    tests: tuple[Test, ...]
    conditions: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...] | None
    payload: tuple[str, ...]

    @property
    def needs_spark(self) -> bool:
        return bool(self.conditions) or self.outputs is None


@dataclass(frozen=True)
class SharedDataflow:
    """All of it. `streams` has every stream of the ring, each at the bit of its progress; none is dropped."""

    levels: int
    streams: tuple[str, ...]
    feeds: tuple[Feed, ...] = ()
    relations: tuple[Relation, ...] = ()
    joins: tuple[Join, ...] = ()
    tails: tuple[QueryTail, ...] = ()
    expected: tuple[Expected, ...] = ()  # of all feeds that some way leads to

    def at(self, batch: int) -> SharedDataflow:
        """What is needed in a micro-batch: without queries that are over, and what only they needed."""
        return self.only(tail for tail in self.tails if batch < tail.until)

    def only(self, tails: Iterable[QueryTail]) -> SharedDataflow:
        """The part of the ring that these tails need."""
        kept = tuple(tails)
        if len(kept) == len(self.tails):
            return self
        joins = {join.name: join for join in self.joins}
        relations = {relation.name: relation for relation in self.relations}
        needed: set[str] = set()
        ahead = [tail.join for tail in kept]
        while ahead:
            name = ahead.pop()
            if name in needed:
                continue
            needed.add(name)
            if name in joins:
                ahead += joins[name].members
            elif name in relations:
                ahead.append(relations[name].source)
        return replace(
            self,
            feeds=tuple(each for each in self.feeds if each.name in needed),
            relations=tuple(each for each in self.relations if each.name in needed),
            joins=tuple(each for each in self.joins if each.name in needed),
            tails=kept,
        )
