"""The Bloom filter of the one-way join SM-B: its size, its false positives, and what keeping it costs.

A filter of m bits and h hashes over k values lets a value that is not among them pass with probability
(1 - e^(-h k / m))^h (Bloom 1970). It is sized for the values expected in the window. An update says which
bits flip, each by its position, or the whole filter where that is shorter.

Example: 8 bits a value and 3 hashes let about 3 % of the other values pass.
"""

from __future__ import annotations

import math

BITS_PER_VALUE = 8
HASHES = 3
LEAST_BITS = 64


def filter_bits(values: float) -> int:
    """The size of a filter for this many values."""
    return max(LEAST_BITS, math.ceil(BITS_PER_VALUE * values))


def fill(values: float, bits: int) -> float:
    """The expected share of bits that are set."""
    return -math.expm1(-HASHES * values / bits)


def false_positive_rate(values: float, bits: int) -> float:
    """The share of other values that pass."""
    return float(fill(values, bits) ** HASHES)


def flip_bytes(flips: float, bits: int) -> float:
    """The size of an update by which this many bits flip."""
    place_bytes = math.ceil(math.log2(bits) / 8)
    return float(min(flips * place_bytes, math.ceil(bits / 8)))
