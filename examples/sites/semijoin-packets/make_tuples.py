"""Packets of three routers over six hours, in Parquet files beside the pipeline: python make_tuples.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PACKETS = {"s1": 2000, "s2": 1500, "s3": 1200}
DESTINATIONS = 1500
HOURS = 6
START_US = 1_735_689_600_000_000  # 2025-01-01 UTC
FILES = 3  # of each stream


def main(folder: Path) -> None:
    random = np.random.default_rng(3)
    for stream, count in PACKETS.items():
        at = START_US + np.sort((random.random(count) * HOURS * 3_600e6).astype(np.int64))
        dest = [f"10.0.{value >> 8}.{value & 255}" for value in random.integers(DESTINATIONS, size=count)]
        table = pa.table(
            {
                "id": np.arange(count),
                "dest": dest,
                "body": [f"{stream} {number} " + "." * 380 for number in range(count)],
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
