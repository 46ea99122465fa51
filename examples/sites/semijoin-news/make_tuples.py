"""Articles of two services over three days, in Parquet files beside the pipeline: python make_tuples.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ARTICLES = {"ap": 900, "reuters": 600}
WORDS = [f"word {n}" for n in range(16)]
DAYS = 3
START_US = 1_735_689_600_000_000  # 2025-01-01 UTC
FILES = 3  # of each stream


def main(folder: Path) -> None:
    random = np.random.default_rng(11)
    for stream, count in ARTICLES.items():
        at = START_US + np.sort((random.random(count) * DAYS * 86_400e6).astype(np.int64))
        keywords = [sorted(set(random.choice(WORDS, random.integers(3, 6)))) for _ in range(count)]
        table = pa.table(
            {
                "id": pa.array(range(count), pa.int64()),
                "keywords": pa.array(keywords, pa.list_(pa.string())),
                "title": [f"{stream} reports {' and '.join(words)} " + "." * 400 for words in keywords],
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
