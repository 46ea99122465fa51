"""A node's query table: which queries it knows, and what they want of it.

After Palma, Akbarinia, Pacitti and Valduriez, DHTJoin (extended version), sections 3.1 and 3.2. The table
answers three questions: by which attributes must a new tuple of a stream be indexed (none, where no query
joins on any), which operators read what arrives on a lane, and who wants an operator's results, sent on under
which attribute or answered to whom. A query that has suspended a producer (section 4.2) wants nothing of
it.

Example: with X.b = Y.b known, a tuple of X is indexed by b alone; once X.c = Z.c arrives, by b and by c.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.lab.overlay.dhtjoin.operators import (
    KeyExpr,
    Operator,
    Partial,
    Published,
    Slot,
    operator_tree,
    passes_filters,
)
from watersmeet.plan.sites.dhtjoin import DhtJoinPlan
from watersmeet.query import Query


@dataclass(frozen=True, eq=False)
class QueryEntry:
    """A disseminated query: its id, its owner, its operators, and the time from which it sees tuples."""

    qid: str
    owner: int  # the node that submitted it
    query: Query
    root: Operator
    inserted_us: int


def query_entry(qid: str, owner: int, query: Query, plan: DhtJoinPlan, inserted_us: int) -> QueryEntry:
    """A query as it is disseminated, its plan turned into operators."""
    return QueryEntry(qid, owner, query, operator_tree(query, plan), inserted_us)


@dataclass(frozen=True, eq=False)
class Want:
    """One query's use of one producer: the slot it fills, None where the producer makes its answers."""

    entry: QueryEntry
    slot: Slot | None


@dataclass(frozen=True, eq=False)
class Outlet:
    """Where an operator's results go: to the lane of a slot, or (None) to the query's owner."""

    operator: Operator
    slot: Slot | None


class QueryTable:
    """The queries a node knows, by what they want of it."""

    def __init__(self) -> None:
        self.entries: dict[str, QueryEntry] = {}
        self.depth = 0  # the most operators that any query has one after another
        self._lanes_of: dict[str, dict[str, list[Want]]] = {}  # stream -> lane -> who indexes by it
        self._readers: dict[str, list[tuple[Operator, int]]] = {}  # lane -> operators, with the slot it fills
        self._operators: dict[str, Operator] = {}
        self._results: dict[str, list[Want]] = {}  # operator -> who wants its results
        self._fed: set[str] = set()  # the lanes that carry results
        self._span_us: dict[str, int] = {}  # lane -> the longest window over it
        self._suspended: dict[tuple[str, str], set[str]] = {}  # query, producer -> what is missing

    def add(self, entry: QueryEntry) -> list[Outlet]:
        """Take a query in, once; returns the outlets of its operators that no earlier query had."""
        if entry.qid in self.entries:
            return []
        self.entries[entry.qid] = entry
        new: list[Outlet] = []
        for operator in entry.root.operators:
            self.depth = max(self.depth, len(entry.root.operators))
            if operator.name not in self._operators:
                self._operators[operator.name] = operator
                for number, slot in enumerate(operator.slots):
                    self._readers.setdefault(slot.lane, []).append((operator, number))
            if operator is entry.root:
                self._results.setdefault(operator.name, []).append(Want(entry, None))
                new.append(Outlet(operator, None))
            for slot in operator.slots:
                if slot.operator and slot.lane not in self._fed:
                    self._fed.add(slot.lane)
                    new.append(Outlet(self._operators.get(slot.operator.name, slot.operator), slot))
                self._want_slot(entry, slot)
        return new

    def _want_slot(self, entry: QueryEntry, slot: Slot) -> None:
        want = Want(entry, slot)
        if slot.leaf:
            lanes = self._lanes_of.setdefault(slot.leaf.stream.name, {})
            lanes.setdefault(slot.lane, []).append(want)
            duration_us = slot.leaf.window.duration_us or 0
            self._span_us[slot.lane] = max(self._span_us.get(slot.lane, 0), duration_us)
        elif slot.operator:
            self._results.setdefault(slot.operator.name, []).append(want)

    def operator(self, name: str) -> Operator | None:
        """An operator by its name."""
        return self._operators.get(name)

    def users(self, operator: Operator) -> list[QueryEntry]:
        """The queries that an operator works for."""
        return list({want.entry.qid: want.entry for want in self._results.get(operator.name, ())}.values())

    def readers(self, lane: str) -> list[tuple[Operator, int]]:
        """The operators that read a lane, each with the slot it fills."""
        return self._readers.get(lane, [])

    def span_us(self, lane: str) -> int:
        """How long the longest window over a stream's lane is."""
        return self._span_us.get(lane, 0)

    def lanes_for(self, tuple_: Published) -> list[tuple[str, KeyExpr]]:
        """The lanes a new tuple must be sent on: those some active query, which it may answer, needs."""
        needed = []
        for lane, wants in self._lanes_of.get(tuple_.stream, {}).items():
            for want in wants:
                assert want.slot
                if (
                    tuple_.published_us >= want.entry.inserted_us
                    and not self.is_suspended(want.entry.qid, lane)
                    and (want.slot.leaf is None or passes_filters(want.slot.leaf, tuple_))
                ):
                    needed.append((lane, want.slot.key))
                    break
        return needed

    def outlets(self, operator: Operator, result: Partial) -> list[tuple[str, KeyExpr]]:
        """The lanes a partial result must be sent on, each once, however many queries want it there."""
        lanes = {}
        for want in self._results.get(operator.name, ()):
            if want.slot and self._takes(want, operator, result):
                lanes[want.slot.lane] = want.slot.key
        return list(lanes.items())

    def answered(self, operator: Operator, result: Partial) -> list[QueryEntry]:
        """The queries that a result of an operator answers."""
        wants = self._results.get(operator.name, ())
        return [want.entry for want in wants if want.slot is None and self._takes(want, operator, result)]

    def _takes(self, want: Want, operator: Operator, result: Partial) -> bool:
        entry = want.entry
        return result.since >= entry.inserted_us and not self.is_suspended(entry.qid, operator.name)

    def start_us(self, operator: Operator) -> int | None:
        """Since when some active query wants an operator's results; None where none does."""
        starts = [
            want.entry.inserted_us
            for want in self._results.get(operator.name, ())
            if not self.is_suspended(want.entry.qid, operator.name)
        ]
        return min(starts, default=None)

    def is_suspended(self, qid: str, producer: str) -> bool:
        """Whether a query has suspended a producer: a lane of a stream, or an operator."""
        return bool(self._suspended) and bool(self._suspended.get((qid, producer)))

    def suspend(self, qid: str, producer: str, missing: str) -> None:
        """Note that a query has no use for a producer while it is missing a stream."""
        self._suspended.setdefault((qid, producer), set()).add(missing)

    def resume(self, qid: str, producer: str, missing: str) -> None:
        """Note that a stream is back; the query runs again when it misses no other."""
        causes = self._suspended.get((qid, producer), set())
        causes.discard(missing)
        if not causes:
            self._suspended.pop((qid, producer), None)

    def suspensions(self, producer: str) -> set[tuple[str, str]]:
        """The queries that do without a producer, each with a stream it misses."""
        return {
            (qid, missing)
            for (qid, name), causes in self._suspended.items()
            if name == producer
            for missing in causes
        }

    def others_need(self, qid: str, producer: str) -> bool:
        """Whether another running query needs what a producer makes (line 1 of the paper's Procedure 2)."""
        wants = list(self._results.get(producer, ()))
        for lanes in self._lanes_of.values():
            wants += lanes.get(producer, [])
        return any(
            want.entry.qid != qid and not self.is_suspended(want.entry.qid, producer) for want in wants
        )
