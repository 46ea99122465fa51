"""What a choice for every value spares: a star routed by rewriting against a pipeline, which has one order.

    python benchmarks/rewriting.py [--batches 16] [--rows 400]

a(x, y) joins b by x and c by y. Of b nine tuples in ten have an x below 10, of c nine in ten a y of 10 to 19;
a has the same value, 0 to 19, in both. A pipeline joins b first, or c, for all tuples; rewriting joins c
first where x is below 10, and b first otherwise. Halfway b and c swap their frequent values. Both run on
Spark, over the same files; printed are sums of the engine's own metrics over all batches, and the state after
the last.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.metrics.progress import observed_metrics

VALUES, SECOND_US = 20, 1_000_000
COLUMNS = {"a": ("x", "y"), "b": ("x",), "c": ("y",)}
SQL = """
CREATE STREAM a (x BIGINT, y BIGINT, ts TIMESTAMP) WITH ({a});
CREATE STREAM b (x BIGINT, ts TIMESTAMP) WITH ({b});
CREATE STREAM c (y BIGINT, ts TIMESTAMP) WITH ({c});
CREATE SINK out WITH (format = 'parquet', path = 'out-{routing}');
INSERT INTO out SELECT a.x, b.ts AS tb, c.ts AS tc
FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS], c [RANGE 2 SECONDS] WHERE a.x = b.x AND a.y = c.y;
"""
SUMMED = ("answers", "combinations", "stored", "sent", "arrived_bytes")


def write_batch(folder: Path, number: int, rows: int, swapped: bool, rng: np.random.Generator) -> None:
    """A second of each stream; a's tuples are a tenth, so that answers stay few."""
    half = VALUES // 2
    frequent, rare = rng.integers(0, half, rows), rng.integers(half, VALUES, rows)
    skewed = np.where(rng.random(rows) < 0.9, *((rare, frequent) if swapped else (frequent, rare)))
    values = {"a": rng.integers(0, VALUES, rows // 10), "b": skewed, "c": VALUES - 1 - skewed}
    for name, column in values.items():
        ts = number * SECOND_US + np.sort(rng.integers(0, SECOND_US, len(column)))
        arrays = [pa.array(column)] * len(COLUMNS[name]) + [pa.array(ts, pa.timestamp("us", "UTC"))]
        path = folder / name / f"{number:04}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(arrays, [*COLUMNS[name], "ts"]), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def run(session: Session, folder: Path, routing: str) -> tuple[dict[str, int], dict[str, int]]:
    """Sums of metrics, and of which results went which way."""
    options = {
        name: f"format = 'parquet', path = '{name}', event_time = 'ts', 'option.maxFilesPerTrigger' = '1'"
        for name in COLUMNS
    }
    file = folder / f"{routing}.sql"
    file.write_text(SQL.format(routing=routing, **options))
    run = session.run(
        file,
        checkpoint=folder / f"checkpoint-{routing}",
        options=RunOptions(available_now=True, routing=routing),
    )
    batches = [observed_metrics(report) for report in run.jobs[0].reports]
    sums = {name: sum(each[name] for each in batches) for name in SUMMED}
    sums["state rows"] = batches[-1]["state_rows"]
    sums["stage ms"] = sum(each["stage_us"] for each in batches) // 1000
    went = {name: sum(each[name] for each in batches) for name in batches[0] if name.startswith("went_")}
    return sums, went


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--rows", type=int, default=400)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, rng = Path(name), np.random.default_rng(1)
        settings = {"spark.sql.shuffle.partitions": "2"}
        session = Session(master="local[2]", conf=settings, log=folder / "spark.log")
        for number in range(args.batches):
            write_batch(folder, number, args.rows, number >= args.batches // 2, rng)
        found = {routing: run(session, folder, routing) for routing in ("pipeline", "rewrite")}
        session.spark.stop()
    print(f"{'':16}" + "".join(f"{routing:>14}" for routing in found))
    for metric in found["pipeline"][0]:
        print(f"{metric:16}" + "".join(f"{sums[metric]:>14,}" for sums, _ in found.values()))
    for way, count in found["rewrite"][1].items():
        print(f"{way:30}{count:>14,}")


if __name__ == "__main__":
    main()
