"""One level of a shared dataflow as its buckets use it: who feeds, probes and asks whom for what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from watersmeet.kernel.multiquery.paths import ColumnOf, Members, Node, tree_of
from watersmeet.kernel.multiquery.predicate_index import PredicateIndex, stream_bits, tables_of
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query.shared_dataflow import BEHIND, SINCE, Join, QueryTail, Relation, SharedDataflow, Way

MAX_STREAMS = 63  # a bit each in a signed word

Orders = dict[str, tuple[str, ...]]  # by join


@dataclass(frozen=True)
class Use:
    """What becomes of a join's results, and where their columns are."""

    members: Members
    tables: list[PredicateIndex]
    later: dict[str, dict[str, ColumnOf]]  # relations of later levels, and where each of their columns is
    behind: dict[str, ColumnOf]  # by slot, what its tuple is behind
    needed: dict[str, list[str]]  # columns of each member that all results need
    taken: dict[str, tuple[str, ...]]  # columns of each member that are compared, or that may leave
    ways: tuple[Way, ...] = ()  # of which each result goes one
    routes: tuple[ColumnOf, ...] = ()  # by which it would be sent, for each

    @classmethod
    def of(
        cls,
        members: Members,
        slots: Mapping[str, tuple[str, ...]],
        later: Sequence[Relation],
        tables: list[PredicateIndex],
    ) -> Use:
        columns = {
            one.name: {name: members.column_of(name) for name in (*one.keys, *one.columns)} for one in later
        }
        behind: dict[str, ColumnOf] = {}
        for name, relation in members.relations.items():
            if relation.slot is not None:
                behind[relation.slot] = name, BEHIND
            else:
                behind |= {slot: (name, behind_column(slot)) for slot in slots.get(relation.source, ())}
        needed: dict[str, list[str]] = {name: [] for name in members.relations}
        for name, column in dict.fromkeys(
            [*behind.values(), *(p for one in columns.values() for p in one.values())]
        ):
            needed[name].append(column)
        asked = [members.column_of(column) for table in tables for column in table.columns]
        compared = [column for pair in members.pairs for column in pair]
        taken = {
            name: tuple(
                dict.fromkeys([SINCE, *some, *(own for member, own in [*asked, *compared] if member == name)])
            )
            for name, some in needed.items()
        }
        ways, by_name = members.join.ways, {one.name: one for one in later}
        routes = tuple(columns[way.relation][by_name[way.relation].route] for way in ways)
        return cls(members, tables, columns, behind, needed, taken, ways, routes)


class SharedLevel:
    """The part of a shared dataflow that concerns one level."""

    def __init__(self, dataflow: SharedDataflow, level: int, tuning: Tuning = DEFAULT_TUNING) -> None:
        if len(dataflow.streams) > MAX_STREAMS:
            raise ValueError(
                f"a shared dataflow has {MAX_STREAMS} streams and sets of them at most, "
                f"not {len(dataflow.streams)}"
            )
        self.dataflow = dataflow
        self._tuning = tuning
        self.relations = {one.name: one for one in dataflow.relations if one.level == level}
        self.joins = {join.name: join for join in dataflow.joins if join.level == level}
        self.members = {join.name: Members(join, self.relations) for join in self.joins.values()}
        self.of_feed = _grouped(one for one in self.relations.values() if one.window is not None)
        later = _grouped(one for one in dataflow.relations if one.source in self.joins)
        tables, slots = self._tables(), {join.name: join.slots for join in dataflow.joins}
        self.uses = {
            name: Use.of(members, slots, later.get(name, []), tables.get(name, []))
            for name, members in self.members.items()
        }
        self.late_bits = _bits_of_queries(dataflow)
        self.count_late = self._where_lateness_counts(level)
        durations = [one.window.duration_us for one in self.relations.values() if one.window]
        self.shortest_us = min((us for us in durations if us is not None), default=None)
        self._heads: dict[str, list[Join]] = {}
        for join in self.joins.values():
            for member in join.members:
                self._heads.setdefault(member, []).append(join)
        # What nothing probes need not be kept.
        self.passing = {
            name for name, joins in self._heads.items() if all(len(join.members) == 1 for join in joins)
        }
        self.expected = {one.feed: one for one in dataflow.expected}
        self._adapting = {
            head: [join for join in joins if len(join.members) > 2 and head not in dict(join.orders)]
            for head, joins in self._heads.items()
        }
        self._trees: dict[str, tuple[Orders, Node]] = {}

    def tree(self, head: str, size: Callable[[str], int]) -> Node | None:
        """How rows of a relation probe; where nothing is said, the smallest stores come first."""
        if head not in self._heads:
            return None
        orders = {join.name: _smallest_first(join, head, size) for join in self._adapting[head]}
        known = self._trees.get(head)
        if known is None or known[0] != orders:
            paths = []
            for join in self._heads[head]:
                others = tuple(name for name in join.members if name != head)
                order = orders.get(join.name) or dict(join.orders).get(head, others)
                paths.append(self.members[join.name].path(head, order))
            known = self._trees[head] = orders, tree_of(paths)
        return known[1]

    def _tables(self) -> dict[str, list[PredicateIndex]]:
        tails: dict[str, list[QueryTail]] = {}
        for tail in self.dataflow.tails:
            if tail.join in self.joins:
                tails.setdefault(tail.join, []).append(tail)
        return {
            join: tables_of(some, self.dataflow.streams, self._tuning.pairs_at_once)
            for join, some in tails.items()
        }

    def _where_lateness_counts(self, level: int) -> dict[str, tuple[str, list[int]]]:
        """For each stream that first appears here, the one feed that counts its late tuples, and for whom."""
        counting: dict[str, tuple[str, list[int]]] = {}
        seen: set[str] = set()
        for feed in self.dataflow.feeds:
            if feed.stream not in seen and feed.levels[0] == level:
                readers = [one for one in self.dataflow.tails if feed.stream in self.dataflow.reads(one)]
                bits = {stream_bits(self.dataflow.streams, one.streams) for one in readers}
                counting[feed.name] = feed.stream, sorted(bits)
            seen.add(feed.stream)
        return counting


def behind_column(slot: str) -> str:
    """The column of a result that says what the tuple of a slot is behind."""
    return f"{slot}.{BEHIND}"


def _grouped(relations: Iterable[Relation]) -> dict[str, list[Relation]]:
    groups: dict[str, list[Relation]] = {}
    for relation in relations:
        groups.setdefault(relation.source, []).append(relation)
    return groups


def _smallest_first(join: Join, head: str, size: Callable[[str], int]) -> tuple[str, ...]:
    """Sizes count by their magnitude, so that an order lasts a while."""
    others = [name for name in join.members if name != head]
    return tuple(sorted(others, key=lambda name: size(name).bit_length()))


def _bits_of_queries(dataflow: SharedDataflow) -> Mapping[str, set[int]]:
    """For each join and relation, the bits of the streams of each query that it serves."""
    names = [*(join.name for join in dataflow.joins), *(relation.name for relation in dataflow.relations)]
    bits: dict[str, set[int]] = {name: set() for name in names}
    for tail in dataflow.tails:
        bits[tail.join].add(stream_bits(dataflow.streams, tail.streams))
    source = {relation.name: relation.source for relation in dataflow.relations}
    for join in sorted(dataflow.joins, key=lambda join: -join.level):
        for member in join.members:
            bits[member] |= bits[join.name]
            if source[member] in bits:
                bits[source[member]] |= bits[join.name]
    return bits
