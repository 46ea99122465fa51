"""What a packing task pays for hot values: counting the frequent ones, and routing by a table.

    python benchmarks/hot_routing.py

One chunk of 250,000 tuples over 4 buckets, with even keys and with Zipf 1.2, of which the three most frequent
values are in the table. Prints the best of some runs, in milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from watersmeet.kernel import (
    NO_HOT_VALUES,
    TS,
    Grid,
    HotTable,
    HotValue,
    InputLayout,
    hash_keys,
    route_hot,
    summarise,
)
from watersmeet.query import range_us

ROWS, DOMAIN, SKEW, SIZE = 250_000, 10_000, 1.2, 40
GRID = Grid((4,))
LAYOUT = InputLayout("a", range_us(10_000_000), ((0, "__key0"),), ("size",))


def best_ms(run: Callable[[], object]) -> float:
    run()  # compile
    times = []
    for _ in range(9):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def main() -> None:
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, DOMAIN + 1) ** SKEW
    drawn = {
        "even": random.integers(0, DOMAIN, ROWS),
        "Zipf 1.2": random.choice(DOMAIN, ROWS, p=weights / weights.sum()),
    }
    for name, keys in drawn.items():
        chunk = pa.record_batch({TS: np.arange(ROWS), "__key0": keys, "size": random.integers(0, 1000, ROWS)})
        hashes = hash_keys(GRID, LAYOUT, chunk)
        hottest = hash_keys(GRID, LAYOUT, chunk.set_column(1, "__key0", pa.array(np.arange(ROWS) % 3)))[0]
        values = np.unique(hottest).tolist()
        copied = HotTable(tuple(HotValue(0, value, "b", 0) for value in values))
        spread = HotTable(tuple(HotValue(0, value, "a", 0) for value in values))
        counting = best_ms(lambda hashes=hashes: summarise(hashes[0], SIZE))  # type: ignore[misc]
        print(f"{name}: counting {counting:.1f} ms", end="")
        for what, table in (("no hot value", NO_HOT_VALUES), ("spread", spread), ("copied", copied)):
            ms = best_ms(lambda c=chunk, t=table, h=hashes: route_hot(GRID, LAYOUT, c, t, h))  # type: ignore[misc]
            print(f", routing, {what}: {ms:.1f} ms", end="")
        print()


if __name__ == "__main__":
    main()
