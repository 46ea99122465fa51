"""Tuples at the rates of Table 2, in Parquet files beside the pipeline: python make_tuples.py [SECONDS]"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RATES = {"s0": 10.0, "s1": 35.0, "s2": 25.0, "s3": 30.0, "s4": 15.0}  # tuples/s
COLUMNS = {"s0": "abd", "s1": "a", "s2": "bc", "s3": "c", "s4": "d"}
VALUES = {"a": 100, "b": 250, "c": 1000, "d": 100}  # of each attribute: one over the selectivity
START_US = 1_735_689_600_000_000  # 2025-01-01 UTC
FILES = 3  # of each stream


def main(folder: Path, seconds: float) -> None:
    random = np.random.default_rng(5)
    for stream, rate in RATES.items():
        at = np.sort(random.random(random.poisson(rate * seconds)) * seconds)
        columns = {name: random.integers(VALUES[name], size=len(at)) for name in COLUMNS[stream]}
        ts = pa.array(START_US + (at * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"id": np.arange(len(at)), **columns, "ts": ts})
        target = folder / "data" / stream
        target.mkdir(parents=True, exist_ok=True)
        size = -(-table.num_rows // FILES)
        for number in range(FILES):
            pq.write_table(table.slice(number * size, size), target / f"{number}.parquet")


if __name__ == "__main__":
    main(Path(__file__).parent, float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
