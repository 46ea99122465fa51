"""Small pipelines over Parquet files, to be stopped, killed and resumed, and what the oracle says of them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.strategies import to_arrow
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Query, Stream
from watersmeet.sql import parse_pipeline

SECOND_US = 1_000_000
BATCH_S = 5  # of event time in one file
LATENESS_S = 2

JOIN = (
    "FROM s1 [RANGE 4 SECONDS] AS a, s2 [RANGE 3 SECONDS] AS b, s3 [TUMBLE 6 SECONDS] AS c "
    "WHERE a.k = b.k AND b.k = c.k"
)
QUERIES = {
    "plain": f"SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc, answer_time {JOIN} AND a.v <= c.v",
    "distinct": f"SELECT DISTINCT a.k, b.v % 3 AS third {JOIN}",
    "aggregate": f"SELECT a.k, count(*) AS n, sum(b.v) AS total, answer_time AS tick {JOIN} "
    "GROUP BY a.k EMIT EVERY 1 SECOND",
    "rows": "SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc, answer_time FROM s1 [ROWS 15] AS a, "
    "s2 [RANGE 3 SECONDS] AS b, s3 [TUMBLE 20 ROWS] AS c WHERE a.k = b.k AND b.k = c.k",
    "chain": "SELECT a.v AS va, b.v AS vb, c.v AS vc FROM s1 [RANGE 4 SECONDS] AS a, "
    "s2 [RANGE 4 SECONDS] AS b, s3 [RANGE 4 SECONDS] AS c WHERE a.k = b.k AND b.v = c.v",
}


@dataclass(frozen=True)
class Case:
    """A pipeline file, the tuples its streams hold batch by batch, and its folders."""

    folder: Path
    queries: tuple[Query, ...]
    batches: list[MicroBatch]
    checkpoint_name: str = "checkpoint"

    @property
    def query(self) -> Query:
        return self.queries[0]

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The declared streams of the first query, also of those whose answers it reads."""
        answers = [stream.answers for stream in self.query.answer_streams if stream.answers is not None]
        read = {stream.name: stream for query in (*answers, self.query) for stream in query.streams}
        return tuple(stream for stream in read.values() if stream.answers is None)

    @property
    def file(self) -> Path:
        return self.folder / "pipeline.sql"

    @property
    def checkpoint(self) -> Path:
        return self.folder / self.checkpoint_name

    def check(self, spark: SparkSession, *, flush: bool = True) -> None:
        """The sinks hold each of the oracle's answers exactly once."""
        for query in self.queries:
            expected = oracle.run(query, self.batches, flush=flush)
            assert expected.rows, "a case without answers proves nothing"
            assert oracle.bag(self.found(spark, query)) == oracle.bag(expected.rows)

    def found(self, spark: SparkSession, query: Query | None = None) -> list[tuple[Any, ...]]:
        sink = (query or self.query).sink
        return [tuple(row) for row in spark.read.parquet(f"file:{self.folder / str(sink)}").collect()]


def write_case(
    folder: Path,
    select: str | Sequence[str],
    batches: Sequence[MicroBatch],
    *,
    stream_options: str = "",
    value_type: str = "BIGINT",
    arrived: int | None = None,
    derived: str = "",
) -> Case:
    """The pipeline file and the first `arrived` batches (all of them, unless told), one a trigger."""
    text = pipeline_text(select, stream_options, value_type, derived)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.sql").write_text(text)
    case = Case(folder, parse_pipeline(text).queries, list(batches))
    for name in ("s1", "s2", "s3"):
        (folder / name).mkdir(exist_ok=True)
    arrive(case, range(len(case.batches) if arrived is None else arrived))
    return case


def pipeline_text(
    select: str | Sequence[str], stream_options: str = "", value_type: str = "BIGINT", derived: str = ""
) -> str:
    """Three streams, what is `derived` from them, and each query into a sink of its own: out, out2, ..."""
    lines = [
        f"CREATE STREAM {name} (k BIGINT, v {value_type}, ts TIMESTAMP) "
        f"WITH (format = 'parquet', path = '{name}', event_time = 'ts', "
        f"lateness = '{LATENESS_S} seconds', 'option.maxFilesPerTrigger' = '1'{stream_options});"
        for name in ("s1", "s2", "s3")
    ]
    lines.append(derived)
    for number, text in enumerate([select] if isinstance(select, str) else select, start=1):
        sink = "out" if number == 1 else f"out{number}"
        lines += [f"CREATE SINK {sink} WITH (format = 'parquet', path = '{sink}');"]
        lines += [f"INSERT INTO {sink}", f"{text};"]
    return "\n".join(lines) + "\n"


def arrive(case: Case, numbers: Iterable[int]) -> None:
    """Puts batches where the streams are read from; times of change give the order Spark takes them in.

    A stream that has nothing in a batch, but will again, gets an empty file: its n-th is of the n-th batch.
    """
    for number in numbers:
        for stream in case.streams:
            tuples = case.batches[number].get(stream.name, ())
            if any(batch.get(stream.name) for batch in case.batches[number:]):
                path = case.folder / stream.name / f"{number:04}.parquet"
                draft = path.with_name(f"_{path.name}")
                pq.write_table(to_arrow(stream, tuples), draft)
                os.utime(draft, (1_000_000 + number, 1_000_000 + number))
                draft.rename(path)


def random_batches(
    seed: int, count: int = 6, rows: int = 40, keys: int = 16, streams: Sequence[str] = ("s1", "s2", "s3")
) -> list[MicroBatch]:
    """Tuples out of order within the lateness, so that the cut into batches cannot change the answers."""
    rng = random.Random(seed)
    return [
        {name: [_tuple(rng, number, keys) for _ in range(rows)] for name in streams}
        for number in range(count)
    ]


def _tuple(rng: random.Random, batch: int, keys: int) -> Tuple:
    # A batch reaches back half the lateness: the batches before it may end that much later than its start.
    ts = rng.randrange(int((BATCH_S * batch - LATENESS_S / 2) * SECOND_US), BATCH_S * (batch + 1) * SECOND_US)
    return Tuple(ts, {"k": rng.randrange(keys), "v": rng.randrange(10)})
