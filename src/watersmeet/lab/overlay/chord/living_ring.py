"""The ring in which nodes join, leave and fail, and pointers are only as good as the last stabilisation.

Every node has a predecessor, a list of successors and fingers, as in Chord section 4. A node that leaves or
joins notifies its neighbours, so successors stay right and only fingers age. A node that fails is silent:
whoever points at it finds out by a message that is never answered (counted in `timeouts`) and tries its next
best pointer, until `stabilise` has repaired the ring. As long as no node loses all its successors at once,
rounds of stabilisation bring every pointer back to the truth, which `is_stable` checks.

Tables are made when first needed, from the ring as it was at the start: what the node would have known.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.lab.overlay.chord.ring import Counts, between
from watersmeet.lab.overlay.chord.stable_ring import StableRing

SUCCESSORS = 8  # length of the successor list; log2 N is Chord's advice


class LookupFailed(WatersmeetError):  # noqa: N818 - a fact about the ring, named as one
    """A lookup met a node none of whose pointers leads on."""


class _Tables:
    """What one node knows of the others."""

    __slots__ = ("fingers", "predecessor", "successors")

    def __init__(self, predecessor: int | None, successors: list[int], fingers: list[int]) -> None:
        self.predecessor = predecessor
        self.successors = successors
        self.fingers = fingers  # finger k at index k


class LivingRing:
    """A ring under churn: lookups use each node's own tables, right or not."""

    def __init__(self, start: StableRing, successors: int = SUCCESSORS) -> None:
        if successors < 1:
            raise ConfigurationError("a node needs at least one successor in its list")
        self.bits = start.bits
        self._start = start
        self._mask = (1 << start.bits) - 1
        self._length = successors
        self._id_of = {node: start.id_of(node) for node in start.nodes}
        self._alive = {self._id_of[node]: node for node in start.nodes}
        self._sorted = sorted(self._alive)
        self._tables: dict[int, _Tables] = {}
        self._capacity = start.capacity
        self.timeouts = 0  # messages to nodes that were dead

    @classmethod
    def of(cls, size: int, **options: int) -> LivingRing:
        """A ring that starts whole, each node at the hash of its key."""
        return cls(StableRing.of(size), **options)

    @property
    def nodes(self) -> Sequence[int]:
        return [self._alive[own_id] for own_id in self._sorted]

    @property
    def capacity(self) -> int:
        return self._capacity

    def id_of(self, node: int) -> int:
        return self._id_of[node]

    def is_alive(self, node: int) -> bool:
        return self._alive.get(self._id_of.get(node, -1)) == node

    def owner(self, identifier: int) -> int:
        return self._alive[self._sorted[bisect_left(self._sorted, identifier) % len(self._sorted)]]

    def successor(self, node: int) -> int:
        """The first successor in the node's list that answers."""
        tables = self._of(node)
        alive = next((other for other in tables.successors if self._answers(other)), None)
        if alive is None:
            raise LookupFailed(f"node {node} has lost every successor; only a fresh join can mend that")
        return alive

    def predecessor(self, node: int) -> int:
        """The node it takes for its predecessor; itself while it knows none."""
        before = self._alive_predecessor(node)
        return node if before is None else before

    def fingers(self, node: int) -> list[int]:
        tables = self._of(node)
        known = dict.fromkeys([*tables.successors[:1], *tables.fingers])
        distance = {other: (self._id_of[other] - self._id_of[node]) & self._mask for other in known}
        return sorted((other for other in known if other != node), key=distance.__getitem__)

    def path(self, source: int, identifier: int) -> list[int]:
        hops: list[int] = []
        here = source
        while not self.is_responsible(here, identifier, unsure=False):
            after = self.successor(here)
            if between(identifier, self._id_of[here], self._id_of[after]):
                return [*hops, after] if after != here else hops
            here = self._closest_before(here, identifier, after)
            hops.append(here)
            if len(hops) > self.bits + len(self._sorted):
                raise LookupFailed(f"the lookup of {identifier} from node {source} goes round in circles")
        return hops

    def tour(self, source: int, identifiers: Sequence[int], sent: Counts) -> list[tuple[int, int]]:
        stops, here, total = [], source, 0
        for identifier in identifiers:
            for onward in self.path(here, identifier):
                sent[here] += 1
                total += 1
                here = onward
            stops.append((here, total))
        return stops

    def hops(self, source: int, identifiers: Sequence[int]) -> list[int]:
        return [len(self.path(source, identifier)) for identifier in identifiers]

    def join(self, identifier: int, via: int, node: int | None = None) -> int:
        """A node enters at an identifier, through a node it knows; says its number, new if not given."""
        if identifier in self._alive:
            raise ConfigurationError(f"identifier {identifier} is taken")
        hops = self.path(via, identifier)
        after = hops[-1] if hops else via
        before = self._alive_predecessor(after)
        while before is not None and not between(identifier, self._id_of[before], self._id_of[after]):
            after, before = before, self._alive_predecessor(before)  # who was found knows better
        node = self._capacity if node is None else node
        self._capacity = max(self._capacity, node + 1)
        tables = self._of(after)
        self._id_of[node] = identifier
        self._alive[identifier] = node
        insort(self._sorted, identifier)
        successors = [after, *tables.successors][: self._length]
        self._tables[node] = _Tables(before, successors, [after] * self.bits)
        tables.predecessor = node
        if before is not None:
            self._of(before).successors = [node, *self._of(before).successors][: self._length]
        return node

    def leave(self, node: int) -> int:
        """A node leaves and notifies its neighbours; returns the node now responsible for its keys."""
        after, before = self.successor(node), self.predecessor(node)
        self._remove(node)
        self._of(after).predecessor = before if before != node else None
        others = [other for other in self._of(before).successors if other != node]
        self._of(before).successors = list(dict.fromkeys([after, *others]))[: self._length]
        return after

    def fail(self, node: int) -> None:
        """A node fails silently."""
        self._remove(node)

    def stabilise(self) -> None:
        """One round: each node checks its successor, copies its list, notifies it and renews its fingers."""
        for node in list(self.nodes):
            self._stabilise(node)
        for node in list(self.nodes):
            self._fix_fingers(node)

    @property
    def is_stable(self) -> bool:
        """Whether every successor, predecessor and finger points where it should."""
        truth = StableRing(self._sorted, self.bits)
        names = self.nodes
        for position, node in enumerate(names):
            tables = self._of(node)
            if tables.successors[:1] != [names[(position + 1) % len(names)]] and len(names) > 1:
                return False
            if tables.predecessor != names[position - 1] and len(names) > 1:
                return False
            if any(names[truth.finger(position, k)] != tables.fingers[k] for k in range(self.bits)):
                return False
        return True

    def _of(self, node: int) -> _Tables:
        tables = self._tables.get(node)
        if tables is None:
            start, nearest = self._start, []
            other = node
            for _ in range(self._length):
                other = start.successor(other)
                nearest.append(other)
            fingers = [start.finger(node, k) for k in range(self.bits)]
            tables = self._tables[node] = _Tables(start.predecessor(node), nearest, fingers)
        return tables

    def _alive_predecessor(self, node: int) -> int | None:
        before = self._of(node).predecessor
        return before if before is not None and self.is_alive(before) else None

    def _remove(self, node: int) -> None:
        if not self.is_alive(node):
            raise ConfigurationError(f"node {node} is not in the ring")
        if len(self._sorted) == 1:
            raise ConfigurationError("the last node of a ring cannot go")
        self._of(node)
        own_id = self._id_of[node]
        del self._alive[own_id]
        del self._sorted[bisect_left(self._sorted, own_id)]

    def _answers(self, node: int) -> bool:
        if self.is_alive(node):
            return True
        self.timeouts += 1
        return False

    def is_responsible(self, node: int, identifier: int, unsure: bool = True) -> bool:
        """Whether a node is responsible, judged by its predecessor; `unsure` if that one is gone."""
        before = self._alive_predecessor(node)
        if before is None:
            return unsure
        return between(identifier, self._id_of[before], self._id_of[node])

    def _closest_before(self, node: int, identifier: int, after: int) -> int:
        """The known node closest before an identifier that answers; at worst the successor."""
        tables, own = self._of(node), self._id_of[node]
        distance = (identifier - own) & self._mask
        known = {other: (self._id_of[other] - own) & self._mask for other in tables.fingers}
        known |= {other: (self._id_of[other] - own) & self._mask for other in tables.successors}
        for other in sorted(known, key=known.__getitem__, reverse=True):
            if 0 < known[other] < distance and self._answers(other):
                return other
        return after

    def _stabilise(self, node: int) -> None:
        tables = self._of(node)
        try:
            after = self.successor(node)
        except LookupFailed:
            after = next((other for other in tables.fingers if other != node and self.is_alive(other)), node)
        between_us = self._of(after).predecessor
        if (
            between_us is not None
            and between_us != node
            and self.is_alive(between_us)
            and (after == node or between(self._id_of[between_us], self._id_of[node], self._id_of[after]))
        ):
            after = between_us
        nearest = [after, *self._of(after).successors]
        tables.successors = list(dict.fromkeys(other for other in nearest if self.is_alive(other)))
        tables.successors = tables.successors[: self._length]
        self._notify(after, node)

    def _notify(self, node: int, candidate: int) -> None:
        tables = self._of(node)
        before = tables.predecessor
        if node != candidate and (
            before is None
            or not self.is_alive(before)
            or between(self._id_of[candidate], self._id_of[before], self._id_of[node])
        ):
            tables.predecessor = candidate

    def _fix_fingers(self, node: int) -> None:
        own = self._id_of[node]
        fingers: list[int] = []
        for k in range(self.bits):
            start = (own + (1 << k)) & self._mask
            if fingers and between(start, own, self._id_of[fingers[-1]]) and fingers[-1] != node:
                fingers.append(fingers[-1])
                continue
            try:
                hops = self.path(node, start)
            except LookupFailed:
                fingers.append(self._of(node).fingers[k])
                continue
            fingers.append(hops[-1] if hops else node)
        self._of(node).fingers = fingers
