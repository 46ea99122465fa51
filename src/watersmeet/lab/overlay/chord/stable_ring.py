"""A ring in which every finger and successor is right: Chord when nobody comes or goes.

It keeps only the sorted identifiers and finds a finger by bisection when a lookup wants it, so 100,000 nodes
need a few megabytes and build in well under a second. With 4 bits, nodes 1, 4, 9, 13:

    key 7 belongs to 9; from 13 the lookup goes by finger 13 + 4 = 1 -> 1, 1 + 2 -> 4, then to its successor 9
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numba
import numpy as np
import numpy.typing as npt

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.chord.ring import DEFAULT_BITS, Counts, check_bits, identifier


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
        self._position_of = np.empty(len(order), dtype=np.int64)
        self._position_of[order] = np.arange(len(order))

    @classmethod
    def of(cls, size: int, bits: int = DEFAULT_BITS, name: str = "node") -> StableRing:
        """A ring of `size` nodes numbered clockwise, each at the hash of its key: `node-0`, ..."""
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
        return int(self._ids[self._position_of[node]])

    def is_alive(self, node: int) -> bool:
        return 0 <= node < len(self._ids)

    def owner(self, identifier: int) -> int:
        return int(self._node_at[np.searchsorted(self._ids, identifier) % len(self._ids)])

    def successor(self, node: int) -> int:
        return int(self._node_at[(self._position_of[node] + 1) % len(self._ids)])

    def predecessor(self, node: int) -> int:
        return int(self._node_at[self._position_of[node] - 1])

    def finger(self, node: int, k: int) -> int:
        """Finger k: the first node at or after the node's identifier + 2^k."""
        return self.owner((self.id_of(node) + (1 << k)) & self._mask)

    def fingers(self, node: int) -> list[int]:
        starts = (self.id_of(node) + (np.int64(1) << np.arange(self.bits, dtype=np.int64))) & self._mask
        positions = np.searchsorted(self._ids, starts) % len(self._ids)
        found = dict.fromkeys(int(other) for other in self._node_at[positions])
        return [other for other in found if other != node]

    def path(self, source: int, identifier: int) -> list[int]:
        here, hops = self._position_of[source], []
        while (onward := _next_hop(self._ids, here, identifier, self._mask)) != here:
            here = onward
            hops.append(int(self._node_at[here]))
        return hops

    def tour(self, source: int, identifiers: Sequence[int], sent: Counts) -> list[tuple[int, int]]:
        start = self._position_of[source]
        if len(identifiers) == 1:
            end, hops = _walk(self._ids, self._node_at, start, identifiers[0], self._mask, sent)
            return [(int(end), int(hops))]
        stops = np.array(identifiers, dtype=np.int64)
        ends, totals = _tour(self._ids, self._node_at, start, stops, self._mask, sent)
        return list(zip(ends.tolist(), totals.tolist(), strict=True))

    def hops(self, source: int, identifiers: Sequence[int]) -> list[int]:
        stops = np.array(identifiers, dtype=np.int64)
        counted: list[int] = _hops(self._ids, self._position_of[source], stops, self._mask).tolist()
        return counted

    def with_ids(self, moved: dict[int, int]) -> StableRing:
        """The ring after some nodes moved to other identifiers; numbers stay."""
        ids = np.empty(len(self._ids), dtype=np.int64)
        ids[self._node_at] = self._ids
        for node, own_id in moved.items():
            ids[node] = own_id
        return StableRing(ids, self.bits)


@numba.njit(cache=True)
def _next_hop(ids, here, target, mask):  # type: ignore[no-untyped-def]
    """The position a lookup goes to: its own if responsible, else the successor's or closest finger's."""
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
