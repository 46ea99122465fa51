"""Readings of a building over two hours, in Parquet files beside the pipeline: python make_tuples.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

READINGS = {"temperature": ("celsius", 900), "humidity": ("percent", 700), "light": ("lux", 600)}
ROOMS = 400
HOURS = 2
START_US = 1_735_689_600_000_000  # 2025-01-01 UTC
FILES = 3  # of each stream


def main(folder: Path) -> None:
    random = np.random.default_rng(9)
    for stream, (value, count) in READINGS.items():
        at = START_US + np.sort((random.random(count) * HOURS * 3_600e6).astype(np.int64))
        table = pa.table(
            {
                "sid": np.arange(count),
                "rid": random.integers(ROOMS, size=count),
                value: random.random(count) * 100,
                "note": [f"{stream} {number} " + "." * 180 for number in range(count)],
                "ts": pa.array(at).cast(pa.timestamp("us", "UTC")),
            }
        )
        target = folder / "data" / stream
        target.mkdir(parents=True, exist_ok=True)
        size = -(-count // FILES)
        for number in range(FILES):
            pq.write_table(table.slice(number * size, size), target / f"{number}.parquet")


if __name__ == "__main__":
    main(Path(__file__).parent)
