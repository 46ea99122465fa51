"""Walking hash chains in step against walking them one after another, on the kernel's own index.

    python benchmarks/chain_walk.py

Prints the ratio of the times for an index that fits the nearest cache and for one that does not.
"""

from __future__ import annotations

import time

import numba
import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import (
    HashIndex,
    fetch_times,
    overlapping_pairs,
    start_walk,
    walk_on,
)
from watersmeet.kernel.columns.hashing import hash_column
from watersmeet.query import NEVER

PROBERS = 200_000
ROUNDS = 7
LOW_HALF = (1 << 32) - 1


@numba.njit
def one_after_another(  # type: ignore[no-untyped-def]
    heads, chain, link_bits, hashes, low, high, wanted, max_ts, min_end
):
    """The naive twin of the kernel's probe: no bitmap, no half hashes, one chain at a time."""
    capacity = len(wanted) + 64
    mask = (np.int64(1) << link_bits) - 1
    probers = np.empty(capacity, np.int32)
    places = np.empty(capacity, np.int32)
    count = 0
    for prober in range(len(wanted)):
        if max_ts[prober] >= high or min_end[prober] <= low:
            continue
        place = heads[((wanted[prober] >> 32) & LOW_HALF) * len(heads) >> 32]
        while place >= 0:
            if hashes[place] == wanted[prober]:
                if count == capacity:
                    probers = np.concatenate((probers, np.empty(capacity, np.int32)))
                    places = np.concatenate((places, np.empty(capacity, np.int32)))
                    capacity *= 2
                probers[count] = prober
                places[count] = place
                count += 1
            link = np.int64(chain[place]) & mask
            place = np.int32(-1 if link == mask else link)
    return probers[:count], places[:count]


def compare(rows: int, keys: int) -> tuple[float, float]:
    """Nanoseconds a probe takes: in step, one after another."""
    random = np.random.default_rng(0)
    index, at = HashIndex(rows), np.zeros(rows, np.int64)
    hashes = hash_column(pa.array(random.integers(0, keys, rows)))
    index.extend(0, hashes)
    wanted = hash_column(pa.array(random.integers(0, keys, PROBERS))).view(np.int64)
    lifetimes = np.zeros(PROBERS, np.int64), np.full(PROBERS, 10)

    def in_step() -> tuple[np.ndarray, np.ndarray]:
        walkers = start_walk(index.heads, index.bitmap, 0, 10, wanted, *lifetimes)
        *pairs, left = walk_on(index.chain, index.link_bits, wanted, *walkers, 10 * PROBERS)
        assert not left
        begins = fetch_times(at, 0, pairs[1])
        found = overlapping_pairs(tuple(pairs), begins, np.full(len(begins), NEVER), *lifetimes)
        same = hashes.view(np.int64)[found[1]] == wanted[found[0]]  # whoever probes verifies
        return found[0][same], found[1][same]

    def naive() -> tuple[np.ndarray, np.ndarray]:
        parts = index.heads, index.chain, index.link_bits
        return one_after_another(*parts, hashes.view(np.int64), 0, 10, wanted, *lifetimes)

    best = []
    for walk in (in_step, naive):
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            found = walk()
            times.append(time.perf_counter() - start)
        best.append((1e9 * min(times) / PROBERS, sorted(zip(*map(list, found), strict=True))))
    assert best[0][1] == best[1][1]
    return best[0][0], best[1][0]


def main() -> None:
    for rows, keys in ((10_000, 50_000), (200_000, 1_000_000), (2_000_000, 10_000_000)):
        step, after = compare(rows, keys)
        times = f"in step {step:5.1f} ns, one after another {after:5.1f} ns"
        print(f"{rows:>9} tuples: {times}, {after / step:.1f}x")


if __name__ == "__main__":
    main()
