"""Bucket labels that Spark's own shuffle puts on partitions of their own.

Spark sends a row to partition pmod(Murmur3(label, seed 42), partitions). Labels 0..P-1 collide under that
hash, so some partitions would hold two buckets and others none. Here label i is the smallest non-negative
integer that Spark sends to partition i, so buckets and partitions are the same thing.

The hash is MurmurHash3 x86_32 (Appleby, public domain) of one 4-byte block, as Spark computes it for an INT.

>>> bucket_labels(2)
(2, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SPARK_SEED = 42
MAX_LABELS = 4096


def spark_hash(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Spark's hash(x) of INT values."""
    block = values.astype(np.int32).view(np.uint32)
    mixed = _rotate(block * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotate(mixed ^ np.uint32(SPARK_SEED), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)  # the length in bytes
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotate(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


@lru_cache(maxsize=64)
def bucket_labels(count: int) -> tuple[int, ...]:
    """`count` labels such that Spark puts label i on partition i of `count`."""
    if not 1 <= count <= MAX_LABELS:
        raise ValueError(f"between 1 and {MAX_LABELS} buckets can be labelled, not {count}")
    labels: NDArray[np.int64] = np.full(count, -1, np.int64)
    # P random draws leave a given partition empty with probability 1/e: some P ln P draws fill them all.
    step, start = 16 * count + 64, 0
    while (labels < 0).any():
        candidates = np.arange(start, start + step, dtype=np.int32)
        partitions, first = np.unique(spark_hash(candidates) % np.int32(count), return_index=True)
        empty = labels[partitions] < 0
        labels[partitions[empty]] = candidates[first[empty]]
        start += step
    return tuple(labels.tolist())


def every_bucket_sql(labels: Sequence[int]) -> str:
    """SQL that makes a row of each row for every bucket."""
    return f"explode(array({', '.join(map(str, labels))}))"
