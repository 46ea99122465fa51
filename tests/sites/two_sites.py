"""Two streams at two sites, all joined at oslo, in slices of ten seconds; and what DuckDB makes of them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.plan.statistics import AttributeStatistics, Statistics, StreamStatistics, write_statistics

SITES = {"a": "paris", "b": "oslo"}
PLAN = "simple, all at oslo"
START_US = 1_735_689_600_000_000
STREAM = """CREATE STREAM {name} (k BIGINT, note STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = '{name}', event_time = 'ts', lateness = '1 s', site = '{site}');
"""
QUERY = """CREATE SINK out WITH (format = 'parquet', path = 'out');
INSERT INTO out SELECT a.note, b.note AS other FROM a [RANGE 3 S], b [TUMBLE 2 S] WHERE a.k = b.k;
"""
T = "greatest(epoch_us(a.ts), epoch_us(b.ts))"
EXPECTED = (
    f"SELECT a.note, b.note AS other, {T} AS t FROM a JOIN b ON a.k = b.k "
    f"WHERE {T} - epoch_us(a.ts) <= 3000000 AND {T} // 2000000 = epoch_us(b.ts) // 2000000"
)


def write_pipeline(folder: Path, link: str = "") -> Path:
    """The pipeline file with its statistics, and the first slice of tuples."""
    file = folder / "pipeline.sql"
    sites = "".join(f"CREATE SITE {site};\n" for site in SITES.values())
    streams = "".join(STREAM.format(name=name, site=site) for name, site in SITES.items())
    file.write_text(f"{sites}{link}{streams}{QUERY}")
    write_statistics(statistics(), file.with_suffix(".stats.json"))
    write_tuples(folder, 0)
    return file


def statistics() -> Statistics:
    keys = {"k": AttributeStatistics(distinct=40)}
    return Statistics({name: StreamStatistics(30, 50, site, keys) for name, site in SITES.items()})


def write_tuples(folder: Path, number: int) -> None:
    """Ten seconds of both streams, out of order by less than the lateness."""
    rng = np.random.default_rng(number)
    for name in SITES:
        count = 300
        times = START_US + number * 10_000_000 + np.arange(count) * 33_000 - rng.integers(0, 900_000, count)
        table = pa.table(
            {
                "k": rng.integers(0, 40, count),
                "note": [f"{name} {number} {n}" for n in range(count)],
                "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            }
        )
        (folder / name).mkdir(exist_ok=True)
        pq.write_table(table, folder / name / f"{number}.parquet")


def assert_answers(folder: Path, *, from_us: int = 0) -> tuple[int, int]:
    """The answers are DuckDB's, each once; how many have a t from an instant on, and how many there are."""
    with duckdb.connect() as database:
        for name in (*SITES, "out"):
            database.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder}/{name}/*.parquet')")
        answers = f"SELECT note, other FROM ({EXPECTED})"
        assert database.execute(f"{answers} EXCEPT ALL FROM out").fetchall() == []
        assert database.execute(f"FROM out EXCEPT ALL {answers}").fetchall() == []
        [[later, every]] = database.execute(
            f"SELECT count(*) FILTER (WHERE t >= {from_us}), count(*) FROM ({EXPECTED})"
        ).fetchall()
        assert every > 200
        return later, every
