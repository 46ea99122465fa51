"""What a Chord ring is: identifiers on a circle, each with a responsible node (Stoica et al., SIGCOMM 2001).

Nodes and keys have m-bit identifiers cut from SHA-1. A key belongs to the first node at or after its
identifier, clockwise. Finger k of a node is the first node at or after its own identifier + 2^k; a lookup
goes from finger to finger, each time to the one closest before the key, and so halves the distance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

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
    """What the overlay needs of a ring; a node keeps its number when its identifier changes."""

    bits: int

    @property
    def nodes(self) -> Sequence[int]:
        """The nodes alive, clockwise."""

    @property
    def capacity(self) -> int:
        """One more than the largest node number ever used."""

    def id_of(self, node: int) -> int:
        """A node's identifier."""

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
