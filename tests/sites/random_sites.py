"""Random queries over streams at two to four sites, by a seed: pipeline files, tuples and statistics."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.oracle.oracle import Row, Tuple, run
from watersmeet.plan.statistics import AttributeStatistics, Statistics, StreamStatistics, write_statistics
from watersmeet.query import Query
from watersmeet.query.values import timestamp_us
from watersmeet.sql import parse_pipeline

START_US = 1_735_689_600_000_000
SPAN_US = 12_000_000
LATENESS_US = 500_000
PLACES = ("paris", "oslo", "rome", "bonn")
ALIASES = "abcd"
VALUES = {"x": [1, 1, 1, 2, 3, 4, 5, 6], "y": ["p", "p", "q", "r", "s"]}
WINDOWS = ("[RANGE 2 SECONDS]", "[RANGE 700 MILLISECONDS]", "[TUMBLE 3 SECONDS]")
SHAPES = ("same", "chain", "star", "pair")


@dataclass(frozen=True)
class RandomSites:
    """A pipeline file, its query and what arrives."""

    file: Path
    query: Query
    streams: dict[str, list[Tuple]]

    @property
    def expected(self) -> list[Row]:
        """The oracle's answers."""
        return run(self.query, [self.streams], flush=True).rows

    @property
    def found(self) -> list[Row]:
        """The answers in the sink, times in microseconds as the oracle has them."""
        names = [output.name for output in self.query.select]
        files = (self.file.parent / "out").glob("*.parquet")
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        return [
            tuple(timestamp_us(row[name]) if name == "at" else row[name] for name in names) for row in rows
        ]


def draw_sites(folder: Path, seed: int, kind: str, sites: int) -> RandomSites:
    """The case of a seed: `kind` is plain, distinct or aggregate."""
    rng = random.Random(seed)
    count = max(sites, rng.choice([2, 3]))
    aliases = ALIASES[:count]
    where = {alias: PLACES[n % sites] for n, alias in enumerate(aliases)}
    file = folder / "pipeline.sql"
    file.write_text(_text(rng, kind, where))
    streams = {alias: _tuples(rng, alias, 90 if count == 2 else 45) for alias in aliases}
    for alias, tuples in streams.items():
        _write(folder / alias, tuples)
    rates = {alias: rng.choice([2.0, 8.0, 30.0]) for alias in aliases}
    write_statistics(
        Statistics(
            {
                alias: StreamStatistics(rate, rng.choice([20.0, 200.0]), where[alias], _attributes(rng, rate))
                for alias, rate in rates.items()
            }
        ),
        file.with_suffix(".stats.json"),
    )
    (query,) = parse_pipeline(file.read_text(), file=str(file)).queries
    return RandomSites(file, query, streams)


def _text(rng: random.Random, kind: str, where: dict[str, str]) -> str:
    aliases = [*where]
    windows = [
        rng.choice(["[RANGE 2 SECONDS]", "[RANGE 700 MILLISECONDS]", "[TUMBLE 3 SECONDS]"]) for _ in aliases
    ]
    tables = ", ".join(f"{alias} {window}" for alias, window in zip(aliases, windows, strict=True))
    notes = ", ".join(f"{alias}.note AS note_{alias}" for alias in aliases)
    first, last = aliases[0], aliases[-1]
    select = {
        "plain": f"SELECT {notes}, answer_time AS at",
        "distinct": f"SELECT DISTINCT {first}.x + 1 AS more, {last}.y AS y",
        "aggregate": f"SELECT {first}.x AS x, count(*) AS n, sum({last}.size) AS size, answer_time AS at",
    }[kind]
    end = f" GROUP BY {first}.x EMIT EVERY 500 MILLISECONDS" if kind == "aggregate" else ""
    conditions = _conditions(aliases, rng.choice(SHAPES if len(aliases) > 2 else SHAPES[:1] + SHAPES[3:]))
    if rng.random() < 0.3:
        conditions.append(f"{first}.size < 80")
    if rng.random() < 0.3:
        conditions.append(f"{first}.size + {last}.size < 150")
    streams = "".join(
        f"CREATE STREAM {alias} (x BIGINT, y STRING, size INT, note STRING, ts TIMESTAMP) WITH "
        f"(format = 'parquet', path = '{alias}', event_time = 'ts', lateness = '500 ms', site = '{site}');\n"
        for alias, site in where.items()
    )
    return (
        f"{streams}CREATE SINK out WITH (format = 'parquet', path = 'out');\n"
        f"INSERT INTO out {select} FROM {tables} WHERE {' AND '.join(conditions)}{end};\n"
    )


def _conditions(aliases: list[str], shape: str) -> list[str]:
    """x in all streams; x and y in turn; all others with the first by one of them; both of each pair."""
    pairs = list(itertools.pairwise(aliases))
    if shape == "same":
        return [f"{one}.x = {other}.x" for one, other in pairs]
    if shape == "chain":
        return [f"{one}.{'xy'[n % 2]} = {other}.{'xy'[n % 2]}" for n, (one, other) in enumerate(pairs)]
    if shape == "star":
        first, *others = aliases
        return [f"{first}.{'yx'[n % 2]} = {other}.{'yx'[n % 2]}" for n, other in enumerate(others)]
    return [f"{one}.{name} = {other}.{name}" for one, other in pairs for name in "xy"]


def _tuples(rng: random.Random, alias: str, count: int) -> list[Tuple]:
    found = []
    for n in range(count):
        ts = START_US + n * SPAN_US // count - rng.randrange(LATENESS_US // 2)
        values = {name: rng.choice([*domain, None]) for name, domain in VALUES.items()}
        found.append(Tuple(ts, {**values, "size": rng.randrange(100), "note": f"{alias}{n}", "ts": ts}))
    return found


def _attributes(rng: random.Random, rate: float) -> dict[str, AttributeStatistics]:
    hot = {name: rng.sample(sorted(set(domain)), 2) for name, domain in VALUES.items()}
    return {
        name: AttributeStatistics(float(len(set(domain))), tuple((value, rate / 4) for value in hot[name]))
        for name, domain in VALUES.items()
    }


def _write(folder: Path, tuples: list[Tuple]) -> None:
    """Three files, which a run may take in any batch."""
    folder.mkdir()
    types = {"x": pa.int64(), "y": pa.string(), "size": pa.int32(), "note": pa.string(), "ts": pa.int64()}
    for number in range(3):
        part = tuples[number * len(tuples) // 3 : (number + 1) * len(tuples) // 3]
        table = pa.table(
            {name: pa.array([one.values[name] for one in part], type_) for name, type_ in types.items()}
        )
        place = table.schema.names.index("ts")
        table = table.set_column(place, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))
        pq.write_table(table, folder / f"{number}.parquet")
