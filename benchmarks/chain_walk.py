"""Walking hash chains in step against walking them one after another, on the kernel's own index.

    python benchmarks/chain_walk.py

Prints the ratio of the times for an index that fits the nearest cache and for one that does not.
"""

from __future__ import annotations

import time

import numba
import numpy as np

from watersmeet.kernel.hashing import hash_column
from watersmeet.kernel.slice import _HASH, _LINK, _Index, _probe

PROBERS = 200_000
ROUNDS = 7


@numba.njit
def one_after_another(heads, entries, low, high, wanted, max_ts, min_end):  # type: ignore[no-untyped-def]
    """The naive twin of the kernel's probe."""
    mask = len(heads) - 1
    capacity = len(wanted) + 64
    probers = np.empty(capacity, np.int32)
    places = np.empty(capacity, np.int32)
    count = 0
    for prober in range(len(wanted)):
        if max_ts[prober] >= high or min_end[prober] <= low:
            continue
        place = heads[wanted[prober] & mask]
        while place >= 0:
            if entries[place, _HASH] == wanted[prober]:
                if count == capacity:
                    probers = np.concatenate((probers, np.empty(capacity, np.int32)))
                    places = np.concatenate((places, np.empty(capacity, np.int32)))
                    capacity *= 2
                probers[count] = prober
                places[count] = place
                count += 1
            place = np.int32(entries[place, _LINK])
    return probers[:count], places[:count]


def compare(rows: int, keys: int) -> tuple[float, float]:
    """Nanoseconds a probe takes: in step, one after another."""
    import pyarrow as pa

    random = np.random.default_rng(0)
    index, ts = _Index(rows), np.zeros(rows, np.int64)
    index.extend(0, hash_column(pa.array(random.integers(0, keys, rows))), ts, np.arange(rows))
    wanted = hash_column(pa.array(random.integers(0, keys, PROBERS))).view(np.int64)
    lives = np.zeros(PROBERS, np.int64), np.full(PROBERS, 10)
    best = []
    for walk in (_probe, one_after_another):
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            found = walk(index.heads, index.entries.values, 0, 10, wanted, *lives)
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
