"""What live tuples take in memory and as persisted chunks, over their raw bytes.

    python benchmarks/state_bytes.py
    python benchmarks/state_bytes.py --random-payload    # sizes of all 64 bits: nothing to narrow there

For workloads of `watersmeet bench` and several sizes of a batch, the kernel alone: after each batch the bytes
of chunks and indexes, and of the chunks as they are written, over the bytes that the live tuples have in
plain Arrow columns. Prints the largest and the mean of the last two thirds of the batches.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.bench.workloads import SECOND_US, WORKLOADS, Workload
from watersmeet.kernel import TS, JoinLayout, MultiwayJoin, lay_out
from watersmeet.spark.exchange.packed_chunk import encode

RUNS = (
    ("netmon3", 5_000, 120),
    ("netmon3", 50_000, 40),
    ("netmon3", 500_000, 20),
    ("star5", 500_000, 20),
    ("chain4", 500_000, 20),
    ("cycle3", 500_000, 20),
    ("wide3", 50_000, 20),
    ("long3", 500_000, 30),
)


@dataclass(frozen=True)
class Taken:
    """Bytes after one batch: of the live tuples, in memory, as persisted."""

    raw: float
    memory: int
    persisted: int


def batches(
    workload: Workload, layout: JoinLayout, rows: int, count: int, *, random_payload: bool
) -> Iterator[dict[str, pa.RecordBatch]]:
    """The workload's tuples as the chunks of a join."""
    share = rows // len(workload.keys)
    drawn = [np.random.default_rng([0, number]) for number in range(len(workload.keys))]
    for batch in range(count):
        new = {}
        for number, item in enumerate(layout.inputs):
            table = workload.table(drawn[number], number, batch * share, share)
            columns = {name: table[name].combine_chunks() for name in item.payload}
            if random_payload:
                columns["size"] = pa.array(drawn[number].integers(-(1 << 63), (1 << 63) - 1, share))
            for (_, name), key in zip(item.keys, workload.keys[number], strict=True):
                columns[name] = table[key].combine_chunks()
            columns[TS] = table["ts"].combine_chunks().view(pa.int64())
            new[item.alias] = pa.record_batch(columns)
        yield new


def measure(workload: Workload, rows: int, count: int, *, random_payload: bool) -> list[Taken]:
    """What is taken after each batch; the watermark follows with no lateness."""
    layout = lay_out(workload.query)
    join, taken = MultiwayJoin(layout), []
    for new in batches(workload, layout, rows, count, random_payload=random_payload):
        watermark = min(int(batch.column(TS)[-1].as_py()) for batch in new.values())
        for _ in join.step(new, watermark):
            pass
        raw = 0.0
        for store in join.stores.values():
            for chunk in store.chunks:
                ends = np.asarray(chunk.column(TS)) + workload.window_s * SECOND_US + 1
                raw += np.count_nonzero(ends > watermark) * chunk.batch.nbytes / chunk.rows
        persisted = sum(len(encode(chunk.batch)) for chunk in join.persisted())
        taken.append(Taken(raw, join.used_bytes, persisted))
    return taken[count // 3 :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--random-payload", action="store_true", help="sizes that cannot be narrowed")
    random_payload = parser.parse_args().random_payload
    print("| | rows a batch | in memory: largest, mean | persisted: largest, mean |")
    print("| --- | ---: | ---: | ---: |")
    for name, rows, count in RUNS:
        taken = measure(WORKLOADS[name], rows, count, random_payload=random_payload)
        memory = [one.memory / one.raw for one in taken]
        persisted = [one.persisted / one.raw for one in taken]
        print(
            f"| {name} | {rows:,} | {max(memory):.2f}, {np.mean(memory):.2f} "
            f"| {max(persisted):.2f}, {np.mean(persisted):.2f} |"
        )


if __name__ == "__main__":
    main()
