"""What is left of the answers when state is limited: found beside estimated, by policy and by limit.

    python benchmarks/shedding.py
    python benchmarks/shedding.py --zipf 0 --zipf 0.6 --zipf 0.9 --zipf 1.2 --limit 0.2

The kernel alone, one bucket, the same tuples under each limit. `found` is the share of the answers of an
unlimited run, `estim.` the completeness that the run itself estimates. The limit is a share of the memory
that the unlimited run takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernel import TS, BatchInput, JoinBucket, Punctuation, Shed, StateLimit, plan_bucket
from watersmeet.query import Column, Query, Stream
from watersmeet.sql import bind_query

COLUMNS = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
SECOND = 1_000_000


@dataclass(frozen=True)
class Workload:
    """Streams joined by one key under one RANGE window; tuples a second, one number a stream."""

    rates: tuple[int, ...] = (2000, 2000, 2000)
    window_s: int = 10
    seconds: int = 60
    keys: int = 5000
    zipf: float = 0.0
    batch_s: float = 0.5
    seed: int = 1

    @property
    def query(self) -> Query:
        names = [f"s{number}" for number in range(len(self.rates))]
        streams = [Stream(name, COLUMNS, "ts") for name in names]
        froms = ", ".join(f"{name} [RANGE {self.window_s} SECONDS]" for name in names)
        where = " AND ".join(f"s0.k = {name}.k" for name in names[1:])
        return bind_query(
            f"SELECT {', '.join(f'{n}.v AS {n}_v' for n in names)} FROM {froms} WHERE {where}", streams
        )

    def batches(self) -> Iterator[dict[str, pa.RecordBatch]]:
        """Tuples of each stream in order of time, with keys by Zipf's law or all alike."""
        random = np.random.default_rng(self.seed)
        weights = 1 / np.arange(1, self.keys + 1) ** self.zipf
        shares = np.cumsum(weights) / weights.sum()
        for number in range(round(self.seconds / self.batch_s)):
            start = int(number * self.batch_s * SECOND)
            batch = {}
            for place, rate in enumerate(self.rates):
                count = int(rate * self.batch_s)
                ts = start + np.sort(random.integers(0, int(self.batch_s * SECOND), count))
                keys = np.searchsorted(shares, random.random(count))
                values = random.integers(0, 1000, count)
                batch[f"s{place}"] = pa.record_batch(
                    {TS: pa.array(ts), "k": pa.array(keys), "__key0": pa.array(keys), "v": pa.array(values)}
                )
            yield batch


@dataclass(frozen=True)
class Outcome:
    answers: int
    estimated: float
    shed: int
    peak_bytes: int


def run(workload: Workload, limit: StateLimit | None = None) -> Outcome:
    """All batches through one bucket."""
    bucket = JoinBucket(plan_bucket(workload.query, limit))
    answers = shed = peak = 0
    missed = 0.0
    for batch in workload.batches():
        marks = Punctuation(
            {name: int(one.column(TS)[-1].as_py()) for name, one in batch.items() if one.num_rows}
        )
        answers += sum(table.num_rows for table in bucket.step(BatchInput(batch, marks)))
        missed += bucket.counts.missed
        shed += sum(bucket.counts.shed.values())
        peak = max(peak, bucket.used_bytes)
    return Outcome(answers, answers / max(1e-9, answers + missed), shed, peak)


WORKLOADS = {
    "2 streams": Workload((3000, 3000)),
    "2 streams, 10:1": Workload((5000, 500)),
    "3 streams": Workload(),
    "4 streams, 4:2:1:1": Workload((2000, 1000, 500, 500), keys=2000),
    "3 streams, Zipf 0.6": Workload(zipf=0.6),
}
POLICIES = (Shed.RANDOM, Shed.OLDEST, Shed.LEAST)
SHARES = (0.2, 0.4, 0.6, 0.8)


def skewed(zipf: float) -> dict[str, Workload]:
    """Two and three streams under any skew, slow enough for the answers of a very frequent key."""
    pair = Workload((500, 500), zipf=zipf)
    three = Workload((60, 60, 60), keys=500, zipf=zipf)
    return {f"2 streams, Zipf {zipf:g}": pair, f"3 streams, Zipf {zipf:g}": three}


def table(
    workloads: Mapping[str, Workload], shares: Sequence[float], policies: Sequence[Shed]
) -> Iterator[str]:
    yield f"{'workload':<22} {'limit':>6} " + " ".join(
        f"{shed + ' found':>13} {'estim.':>7}" for shed in policies
    )
    for name, workload in workloads.items():
        whole = run(workload)
        for share in shares:
            cells = []
            for shed in policies:
                part = run(workload, StateLimit(int(share * whole.peak_bytes), shed))
                cells.append(f"{part.answers / whole.answers:>13.1%} {part.estimated:>7.1%}")
            yield f"{name:<22} {share:>6.0%} {' '.join(cells)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workload", choices=list(WORKLOADS), action="append")
    parser.add_argument("--limit", type=float, action="append", help="a share of what an unlimited run takes")
    parser.add_argument("--zipf", type=float, action="append", help="two and three streams of this skew")
    parser.add_argument("--shed", choices=[shed.value for shed in POLICIES], action="append")
    arguments = parser.parse_args()
    chosen = {name: WORKLOADS[name] for name in arguments.workload or ()}
    for zipf in arguments.zipf or ():
        chosen |= skewed(zipf)
    policies = [Shed(name) for name in arguments.shed] if arguments.shed else POLICIES
    for line in table(chosen or WORKLOADS, arguments.limit or SHARES, policies):
        print(line, flush=True)


if __name__ == "__main__":
    main()
