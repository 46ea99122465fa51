"""What probing orders by value save: 3 streams, one key, two heavy values with opposite rates.

    python benchmarks/value_orders.py

Stream a has both values often, b only the one and c only the other, so no single order suits both. Prints the
probes and the rows/s with orders by value and with one order for all; the answers must be the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernel import TS, MultiwayJoin, lay_out
from watersmeet.kernel.join import value_groups
from watersmeet.query import Column, Stream
from watersmeet.sql import bind_query

COLUMNS = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
QUERY = bind_query(
    "SELECT a.v AS va, b.v AS vb, c.v AS vc FROM s1 [RANGE 1 SECOND] AS a, s2 [RANGE 1 SECOND] AS b, "
    "s3 [RANGE 1 SECOND] AS c WHERE a.k = b.k AND b.k = c.k",
    [Stream(name, COLUMNS, "ts") for name in ("s1", "s2", "s3")],
)
WEIGHTS = {"a": {1: 0.3, 2: 0.3}, "b": {1: 0.01}, "c": {2: 0.01}}
ROWS, BATCHES, BATCH_US, WARM_UP = 20_000, 24, 2_500_000, 8


@dataclass(frozen=True)
class Measured:
    probes: int
    answers: int
    rows_per_s: float


def draw(random: np.random.Generator, weights: dict[int, float], number: int) -> pa.RecordBatch:
    """One batch of a stream: heavy keys by weight, the rest evenly over many."""
    keys = random.integers(10, 50_010, ROWS)
    at, low = random.random(ROWS), 0.0
    for key, weight in weights.items():
        keys[(at >= low) & (at < low + weight)] = key
        low += weight
    ts = np.sort(random.integers(number * BATCH_US, (number + 1) * BATCH_US, ROWS))
    return pa.record_batch({TS: ts, "__key0": keys, "v": np.arange(ROWS)})


def measure() -> Measured:
    random, join = np.random.default_rng(1), MultiwayJoin(lay_out(QUERY))
    probes = answers = 0
    seconds = 0.0
    for number in range(BATCHES):
        new = {alias: draw(random, weights, number) for alias, weights in WEIGHTS.items()}
        start = time.perf_counter()
        answers += sum(table.num_rows for table in join.step(new, number * BATCH_US))
        if number >= WARM_UP:
            seconds += time.perf_counter() - start
            probes += join.counts.probes
    return Measured(probes, answers, len(WEIGHTS) * ROWS * (BATCHES - WARM_UP) / seconds)


def main() -> None:
    measure()  # compile
    by_value, gain = measure(), value_groups.LEAST_GAIN
    value_groups.LEAST_GAIN = float("inf")
    one_order = measure()
    value_groups.LEAST_GAIN = gain
    if by_value.answers != one_order.answers:
        raise SystemExit(f"answers differ: {by_value.answers} and {one_order.answers}")
    for name, measured in (("orders by value", by_value), ("one order for all", one_order)):
        print(f"{name}: {measured.probes:,} probes, {measured.rows_per_s / 1e6:.2f} M rows/s")
    print(f"probes saved: {1 - by_value.probes / one_order.probes:.0%}; answers {by_value.answers:,} in both")


if __name__ == "__main__":
    main()
