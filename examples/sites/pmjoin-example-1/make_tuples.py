"""Tuples at the rates of Table 1, in Parquet files beside the pipeline: python make_tuples.py [SECONDS]"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RATES = {  # tuples/s of each destination
    "s1": {"a": 0.1, "b": 0.1, "c": 100.0},
    "s2": {"a": 0.03, "b": 50.0, "c": 0.04},
    "s3": {"a": 50.0, "b": 0.01, "c": 0.02},
}
START_US = 1_735_689_600_000_000  # 2025-01-01 UTC
FILES = 4  # of each stream


def main(folder: Path, seconds: float) -> None:
    random = np.random.default_rng(7)  # with answers of all three destinations
    for stream, rates in RATES.items():
        times = {
            dest: random.random(random.poisson(rate * seconds)) * seconds for dest, rate in rates.items()
        }
        at = np.concatenate(list(times.values()))
        dest = np.repeat(list(times), [len(own) for own in times.values()])
        order = np.argsort(at)
        ts = pa.array(START_US + (at[order] * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"dest": dest[order], "ts": ts})
        target = folder / "data" / stream
        target.mkdir(parents=True, exist_ok=True)
        size = -(-table.num_rows // FILES)
        for number in range(FILES):
            pq.write_table(table.slice(number * size, size), target / f"{number}.parquet")


if __name__ == "__main__":
    main(Path(__file__).parent, float(sys.argv[1]) if len(sys.argv) > 1 else 600.0)
