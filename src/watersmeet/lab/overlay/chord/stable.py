"""Chord: a ring of nodes on which any key is found in O(log N) hops (Stoica et al., SIGCOMM 2001).

Nodes and keys have m-bit identifiers cut from SHA-1. A key belongs to the first node at or after its
identifier, clockwise. Finger k of a node is the first node at or after its own identifier + 2^k; a lookup
goes from finger to finger, each time to the one closest before the key, and so halves the distance.

`StableRing` is a ring in which every finger is right. It keeps only the sorted identifiers and finds a finger
by bisection when a lookup wants it, so 100,000 nodes need a few megabytes and build in well under a second.
`LivingRing` (chord_living.py) is the ring in which nodes come, go and fail. With 4 bits, nodes 1, 4, 9, 13:

    key 7 belongs to 9; from 13 the lookup goes by finger 13 + 4 = 1 -> 1, 1 + 2 -> 4, then to its successor 9
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numba
import numpy as np
import numpy.typing as npt

from watersmeet.errors import ConfigurationError

MAX_BITS = 62  # identifiers, and their sums, fit a signed 64-bit word
DEFAULT_BITS = 48

Counts = npt.NDArray[np.int64]


def identifier(key: str, bits: int = DEFAULT_BITS) -> int:
    """Hash(k): the first `bits` bits of the key's SHA-1."""
    return int.from_bytes(hashlib.sha1(key.encode()).digest()[:8], "big") >> (64 - bits)


class Ring(Protocol):
    """What the overlay needs of a ring; nodes are numbers that stay theirs wherever they stand on it."""

    bits: int

    @property
    def nodes(self) -> Sequence[int]:
        """The nodes alive, clockwise."""

    @property
    def capacity(self) -> int:
        """One more than the largest node number ever used."""

    def id_of(self, node: int) -> int:
        """Where a node stands on the circle."""

    def is_alive(self, node: int) -> bool: ...

    def owner(self, identifier: int) -> int:
        """The node responsible for an identifier, in truth."""

    def successor(self, node: int) -> int: ...

    def predecessor(self, node: int) -> int: ...

    def fingers(self, node: int) -> list[int]:
        """The distinct nodes in a node's finger table, clockwise from it, its successor first."""

    def path(self, source: int, identifier: int) -> list[int]:
        """The nodes a lookup visits after its source; the last is responsible (none: the source itself)."""

    def tour(self, source: int, identifiers: Sequence[int], sent: Counts) -> list[tuple[int, int]]:
        """Visits the owners of identifiers one after another; counts in `sent` the messages each node sends.

        Returns, for each identifier, the node reached and how many hops had been made by then.
        """

    def hops(self, source: int, identifiers: Sequence[int]) -> list[int]:
        """How many hops a lookup of its own takes to the owner of each identifier."""


class StableRing:
    """A ring in which every finger and successor is right."""

    def __init__(self, ids: Sequence[int] | npt.NDArray[np.int64], bits: int = DEFAULT_BITS) -> None:
        check_bits(bits)
        given = np.asarray(ids, dtype=np.int64)
        if not len(given):
            raise ConfigurationError("a ring needs at least one node")
        if given.min() < 0 or given.max() >= 1 << bits:
            raise ConfigurationError(f"identifiers of a {bits}-bit ring go from 0 to 2^{bits} - 1")
        order = np.argsort(given, kind="stable")
        if len(given) > 1 and (np.diff(given[order]) == 0).any():
            raise ConfigurationError("two nodes of a ring have the same identifier")
        self.bits = bits
        self._mask = (1 << bits) - 1
        self._ids = given[order]
        self._node_at = order
        self._place_of = np.empty(len(order), dtype=np.int64)
        self._place_of[order] = np.arange(len(order))

    @classmethod
    def of(cls, size: int, bits: int = DEFAULT_BITS, name: str = "node") -> StableRing:
        """A ring of `size` nodes numbered clockwise, each placed by the hash of its key: `node-0`, ..."""
        check_bits(bits)
        if size > 1 << bits:
            raise ConfigurationError(f"{size} nodes do not fit a {bits}-bit ring")
        taken: set[int] = set()
        number = 0
        while len(taken) < size:
            taken.add(identifier(f"{name}-{number}", bits))
            number += 1
        return cls(np.fromiter(sorted(taken), dtype=np.int64, count=size), bits)

    @property
    def nodes(self) -> Sequence[int]:
        return self._clockwise

    @cached_property
    def _clockwise(self) -> list[int]:
        return [int(node) for node in self._node_at]

    @property
    def capacity(self) -> int:
        return len(self._ids)

    def id_of(self, node: int) -> int:
        return int(self._ids[self._place_of[node]])

    def is_alive(self, node: int) -> bool:
        return 0 <= node < len(self._ids)

    def owner(self, identifier: int) -> int:
        return int(self._node_at[np.searchsorted(self._ids, identifier) % len(self._ids)])

    def successor(self, node: int) -> int:
        return int(self._node_at[(self._place_of[node] + 1) % len(self._ids)])

    def predecessor(self, node: int) -> int:
        return int(self._node_at[self._place_of[node] - 1])

    def finger(self, node: int, k: int) -> int:
        """Finger k: the first node at or after the node's identifier + 2^k."""
        return self.owner((self.id_of(node) + (1 << k)) & self._mask)

    def fingers(self, node: int) -> list[int]:
        starts = (self.id_of(node) + (np.int64(1) << np.arange(self.bits, dtype=np.int64))) & self._mask
        places = np.searchsorted(self._ids, starts) % len(self._ids)
        found = dict.fromkeys(int(other) for other in self._node_at[places])
        return [other for other in found if other != node]

    def path(self, source: int, identifier: int) -> list[int]:
        here, hops = self._place_of[source], []
        while (onward := _next_hop(self._ids, here, identifier, self._mask)) != here:
            here = onward
            hops.append(int(self._node_at[here]))
        return hops

    def tour(self, source: int, identifiers: Sequence[int], sent: Counts) -> list[tuple[int, int]]:
        place = self._place_of[source]
        if len(identifiers) == 1:
            end, hops = _walk(self._ids, self._node_at, place, identifiers[0], self._mask, sent)
            return [(int(end), int(hops))]
        stops = np.array(identifiers, dtype=np.int64)
        ends, totals = _tour(self._ids, self._node_at, place, stops, self._mask, sent)
        return list(zip(ends.tolist(), totals.tolist(), strict=True))

    def hops(self, source: int, identifiers: Sequence[int]) -> list[int]:
        stops = np.array(identifiers, dtype=np.int64)
        counted: list[int] = _hops(self._ids, self._place_of[source], stops, self._mask).tolist()
        return counted

    def with_ids(self, moved: dict[int, int]) -> StableRing:
        """The ring after some nodes moved to other identifiers; numbers stay."""
        ids = np.empty(len(self._ids), dtype=np.int64)
        ids[self._node_at] = self._ids
        for node, place in moved.items():
            ids[node] = place
        return StableRing(ids, self.bits)


def check_bits(bits: int) -> None:
    """Refuses rings whose identifiers do not fit a machine word."""
    if not 1 <= bits <= MAX_BITS:
        raise ConfigurationError(f"a ring has 1 to {MAX_BITS} bits, not {bits}")


def between(identifier: int, low: int, high: int) -> bool:
    """Whether an identifier lies clockwise in (low, high]; (x, x] is the whole circle."""
    return low < identifier <= high if low < high else identifier > low or identifier <= high


def arc_start(ring: Ring, node: int) -> int:
    """The first identifier a node is responsible for; a clockwise tour that starts here never returns."""
    return (ring.id_of(ring.predecessor(node)) + 1) % (1 << ring.bits)


def estimate_size(ring: Ring, node: int, sample: int = 16) -> int:
    """How many nodes a ring has, judged by one node from how densely its next successors stand."""
    far, steps = node, 0
    while steps < sample and (onward := ring.successor(far)) != node:
        far, steps = onward, steps + 1
    if steps < sample:
        return steps + 1
    arc = (ring.id_of(far) - ring.id_of(node)) % (1 << ring.bits)
    return max(steps + 1, round(steps * (1 << ring.bits) / arc))


@numba.njit(cache=True)
def _next_hop(ids, here, target, mask):  # type: ignore[no-untyped-def]
    """Where a lookup goes from a place: itself when responsible, else successor or closest finger before."""
    count = len(ids)
    own = ids[here]
    before = ids[here - 1]
    if count == 1 or 0 < ((target - before) & mask) <= ((own - before) & mask):
        return here
    after = (here + 1) % count
    distance = (target - own) & mask
    if distance <= ((ids[after] - own) & mask):
        return after
    reach = 1
    while reach <= distance >> 1:
        reach <<= 1
    while reach > 0:
        finger = np.searchsorted(ids, (own + reach) & mask) % count
        if 0 < ((ids[finger] - own) & mask) < distance:
            return finger
        reach >>= 1
    return after


@numba.njit(cache=True)
def _walk(ids, node_at, here, target, mask, sent):  # type: ignore[no-untyped-def]
    hops = 0
    while True:
        onward = _next_hop(ids, here, target, mask)
        if onward == here:
            return node_at[here], hops
        sent[node_at[here]] += 1
        hops += 1
        here = onward


@numba.njit(cache=True)
def _tour(ids, node_at, here, targets, mask, sent):  # type: ignore[no-untyped-def]
    ends = np.empty(len(targets), np.int64)
    totals = np.empty(len(targets), np.int64)
    total = 0
    for i in range(len(targets)):
        while True:
            onward = _next_hop(ids, here, targets[i], mask)
            if onward == here:
                break
            sent[node_at[here]] += 1
            total += 1
            here = onward
        ends[i] = node_at[here]
        totals[i] = total
    return ends, totals


@numba.njit(cache=True)
def _hops(ids, source, targets, mask):  # type: ignore[no-untyped-def]
    counts = np.zeros(len(targets), np.int64)
    for i in range(len(targets)):
        here = source
        while True:
            onward = _next_hop(ids, here, targets[i], mask)
            if onward == here:
                break
            counts[i] += 1
            here = onward
    return counts
