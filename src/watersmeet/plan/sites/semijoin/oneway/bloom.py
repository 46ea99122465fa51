"""SM-B's filter: a Bloom filter of W2's join values, kept up to date at another site by the bits that flip.

The home site counts for every bit how many values set it, so that a value can leave; the other site has the
bits alone. A value that was never in W2 passes with the probability of a false positive, one that is in W2
always passes. Hashing is SHA-256 of a text of the value, the same in every process and every run.

Example: with 64 bits and 2 hashes, the first value to come flips at most 2 bits; when it goes they flip back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache

from watersmeet.plan.sites.semijoin.oneway.items import Key


@lru_cache(maxsize=100_000)
def positions(key: Key, bits: int, hashes: int) -> tuple[int, ...]:
    """The bits of a value, each once: double hashing of one digest."""
    digest = hashlib.sha256(_token(key).encode()).digest()
    first = int.from_bytes(digest[:8], "big")
    step = int.from_bytes(digest[8:16], "big") | 1
    return tuple(dict.fromkeys((first + n * step) % bits for n in range(hashes)))


def _token(key: Key) -> str:
    """A text that equal values share: numbers of different types may be equal, and hash alike."""
    match key:
        case int() | float() | Decimal():
            return f"number {hash(key)}"
        case tuple():
            return f"({', '.join(map(_token, key))})"
        case _:
            return repr(key)


class CountingFilter:
    """The filter at W2's home: how many tuples' values set each bit."""

    def __init__(self, bits: int, hashes: int) -> None:
        self._bits = bits
        self._hashes = hashes
        self._values: dict[Key, int] = {}
        self._set_by: dict[int, int] = {}

    def update(self, inserted: Iterable[Key], expired: Iterable[Key]) -> tuple[int, ...]:
        """Which bits flip when tuples with these values come and go."""
        before: dict[int, bool] = {}
        for key in inserted:
            self._values[key] = self._values.get(key, 0) + 1
            if self._values[key] == 1:
                self._change(key, 1, before)
        for key in expired:
            self._values[key] -= 1
            if not self._values[key]:
                del self._values[key]
                self._change(key, -1, before)
        return tuple(sorted(bit for bit, was in before.items() if was != (self._set_by.get(bit, 0) > 0)))

    def _change(self, key: Key, by: int, before: dict[int, bool]) -> None:
        for bit in positions(key, self._bits, self._hashes):
            before.setdefault(bit, self._set_by.get(bit, 0) > 0)
            self._set_by[bit] = self._set_by.get(bit, 0) + by


class FilterMirror:
    """The filter at the other site: bits alone."""

    def __init__(self, bits: int, hashes: int) -> None:
        self._bits = bits
        self._hashes = hashes
        self._on: set[int] = set()

    def flip(self, bits: Sequence[int]) -> None:
        self._on ^= set(bits)

    def __contains__(self, key: Key) -> bool:
        return self._on.issuperset(positions(key, self._bits, self._hashes))
