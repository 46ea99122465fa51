"""A shared dataflow: many queries over the same streams, evaluated together in levels of joins.

- A *feed* carries the tuples of one stream, each sent once, routed by the value of one attribute.
- A *relation* is what a level keeps and probes, routed by the value of one of its columns: the tuples of a
  feed under a window, or the results of a join of an earlier level.
- A *join* combines the rows of relations of its level. The lifetime of a result is the overlap of the
  lifetimes of its tuples. Results become relations of later levels, and candidates for the queries that end
  at the join.
- A *tail* is what one query still asks of its candidates: its own conditions and its SELECT list.

    a.x = b.x, b.y = c.y     level 1: j1 = a by x, b by x     level 2: j2 = j1 by b.y, c by y     ends at j2

Whatever several queries have in common has one name and exists once. A name says all that the rows under it
depend on, so the state kept under a name still fits when the set of queries changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from watersmeet.query.window import NEVER, Window

SINCE = "__since"  # int64: the micro-batch in which a tuple arrived, or the earliest of its parts did
END = "__end"  # int64: when the lifetime of a join's result ends
BEHIND = "__behind"  # int64: whose progress the tuple is late by, one bit each (`SharedDataflow.streams`)


@dataclass(frozen=True)
class KeyColumn:
    """A column of a feed that is compared: an expression over one stream, cast to the type of comparison."""

    name: str  # the stream's own column where it is one, of the same type
    sql: str  # over the stream under its own name
    type: str | None  # None: unknown, not cast


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Tuples of a stream, sent once for all queries that need them by this attribute; NULLs are not sent."""

    name: str
    stream: str
    route: str  # the key column whose hash decides the bucket
    keys: tuple[KeyColumn, ...]  # all columns compared anywhere, the route among them
    columns: tuple[str, ...]  # of the stream: what answers or later conditions need
    levels: tuple[int, ...]  # that need them, ascending


@dataclass(frozen=True, kw_only=True)
class Relation:
    """Rows that a level keeps: those of a feed under a window, or the results of a join (`window` is None).

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
    streams: tuple[
        str, ...
    ]  # of all queries it serves, or sets of them: when a row has expired, goes by them

    def qualified(self, column: str) -> str:
        return column if self.slot is None else f"{self.slot}.{column}"


@dataclass(frozen=True)
class Way:
    """A relation that results may go on to, and the feeds whose tuples they would meet there."""

    relation: str
    meets: tuple[str, ...]


@dataclass(frozen=True)
class Expected:
    """What the statistics say about a feed that results may go on to meet."""

    feed: str
    live: float  # tuples valid at any one time
    distinct: float  # values of its route


@dataclass(frozen=True, kw_only=True)
class Join:
    """Combinations of a row of each member with overlapping lifetimes, equal in each pair of columns."""

    name: str
    level: int
    members: tuple[str, ...]  # relations; one alone passes its rows on
    equalities: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]  # qualified, of the results
    slots: tuple[str, ...]  # of the tuples a result consists of; each brings `slot.__behind`
    orders: tuple[tuple[str, tuple[str, ...]], ...] = ()  # by member with new rows: which to probe in turn
    ways: tuple[
        Way, ...
    ] = ()  # the relations of which each result goes on to just one, where there is a choice


@dataclass(frozen=True)
class Test:
    """A comparison that is exact without Spark: of a qualified column with a constant or another column."""

    column: str
    op: str  # = < <= > >= <>
    constant: int | str | bool | None = None  # microseconds for times, days for dates
    other: str | None = None


@dataclass(frozen=True)
class Hold:
    """What the answers of a query wait for: that the watermark is past their t, or past ticks.

    At each tick that an answer is valid at, or was `before_us` earlier, it is let out once more. Where Spark
    is to compute distinct values, what is present comes along with each batch (`repeats`).
    """

    emit_every_us: int | None = None  # None: answers are let out once
    before_us: int = 0
    repeats: bool = False
    by_time: bool = False  # whether what is made of answers that are repeated depends on their t


@dataclass(frozen=True, kw_only=True)
class QueryTail:
    """What one query asks of the results of its last join, in the micro-batches [since, until)."""

    query: str
    number: int  # of the query, never reused
    join: str
    streams: tuple[str, ...]  # that it reads, or the set of them: whose progress makes tuples late for it
    slots: tuple[tuple[str, str], ...]  # (alias, slot)
    tests: tuple[Test, ...] = ()
    conditions: tuple[str, ...] = ()  # left to Spark, as the query words them
    # (name, qualified column or answer_time); None: the SELECT list is left to Spark
    outputs: tuple[tuple[str, str], ...] | None = None
    payload: tuple[str, ...] = ()  # qualified columns that Spark needs for what is left to it
    hold: Hold | None = None  # None: answers leave as they are found
    has_values: bool = False  # of its outputs the level after the join lets out those that appear
    with_end: bool = False  # whether answers bring the end of their lifetimes
    since: int = 0
    until: int = NEVER

    @property
    def answered(self) -> dict[str, str]:
        """The qualified columns that answers have, and their names there."""
        if self.template.needs_spark:
            return {column: column for column in self.payload}
        return {source: name for name, source in self.outputs or ()}

    @property
    def template(self) -> TailTemplate:
        """The tail without its query and its constants."""
        tests = tuple(replace(test, constant=None) for test in self.tests)
        alias_slots = self.slots if self.outputs is None or self.conditions else ()
        return TailTemplate(
            join=self.join,
            streams=self.streams,
            slots=alias_slots,
            tests=tests,
            conditions=self.conditions,
            outputs=self.outputs,
            payload=self.payload,
            hold=self.hold,
            has_values=self.has_values,
            with_end=self.with_end,
        )


@dataclass(frozen=True, kw_only=True)
class TailTemplate:
    """What tails that differ only in constants have in common: one table of constants tells them apart."""

    join: str
    streams: tuple[str, ...]
    slots: tuple[tuple[str, str], ...]
    tests: tuple[Test, ...]
    conditions: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...] | None
    payload: tuple[str, ...]
    hold: Hold | None = None
    has_values: bool = False
    with_end: bool = False

    @property
    def needs_spark(self) -> bool:
        return bool(self.conditions) or self.outputs is None


@dataclass(frozen=True, kw_only=True)
class SharedDataflow:
    """All of it. `streams` lists every stream at the bit of its progress; none is ever removed.

    Among them are the names of `sets` of streams that have a watermark of their own, since one of them may
    fall idle. The bit of a set that no query reads any more can be another's: tuples from before a query came
    are not for it, whatever they are behind.
    """

    levels: int
    streams: tuple[str, ...]
    sets: tuple[tuple[str, tuple[str, ...]], ...] = ()  # name, streams
    feeds: tuple[Feed, ...] = ()
    relations: tuple[Relation, ...] = ()
    joins: tuple[Join, ...] = ()
    tails: tuple[QueryTail, ...] = ()
    expected: tuple[Expected, ...] = ()  # for all feeds that some way leads to

    @property
    def depth(self) -> int:
        """The levels that are needed: those of joins, and one for values after the joins they are of."""
        level = {join.name: join.level for join in self.joins}
        after = (level[tail.join] + 1 for tail in self.tails if tail.has_values)
        return max([*level.values(), *after], default=1)

    def reads(self, tail: QueryTail) -> frozenset[str]:
        """The streams that a query reads."""
        sets = dict(self.sets)
        return frozenset(stream for name in tail.streams for stream in sets.get(name, (name,)))

    def at(self, batch: int) -> SharedDataflow:
        """What a micro-batch needs: leaves out queries that have ended, and whatever only they needed."""
        return self.only(tail for tail in self.tails if batch < tail.until)

    def only(self, tails: Iterable[QueryTail]) -> SharedDataflow:
        """The part of the dataflow that these tails need."""
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
