"""The answers of the demonstration, compared with those of another system on the same packets.

The built-in generator makes the packets, so the very tuples that were joined can be made again and joined by
DuckDB where it is installed. Elsewhere the oracle joins them, for a sample of the destinations. The answers
for a destination follow from its own packets alone, so a sample is checked exactly too.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.cli.demonstration.demo import WINDOW_MS, Demo
from watersmeet.oracle import oracle
from watersmeet.query import Pipeline
from watersmeet.spark.generator.generator import generate, parse_options

SAMPLE_ROWS = 20_000  # of each stream, for the oracle


@dataclass(frozen=True)
class Verdict:
    """How the answers compare with those of `judge` on the same packets."""

    judge: str
    expected: int
    missing: int
    extra: int

    @property
    def holds(self) -> bool:
        return self.missing == 0 and self.extra == 0


def packets(demo: Demo, pipeline: Pipeline) -> dict[str, pa.Table]:
    """The tuples of every stream, made again, event times in microseconds."""
    tables = {}
    for stream in pipeline.streams:
        assert stream.source is not None
        generator = parse_options(dict(stream.source.options), stream.columns)
        table = pa.Table.from_batches([generate(generator, 0, demo.rows)])
        tables[stream.name] = in_microseconds(table, "ts")
    return tables


def in_microseconds(table: pa.Table, column: str) -> pa.Table:
    """The table with a column of times as whole microseconds since the epoch."""
    if column not in table.column_names:
        return table
    index = table.column_names.index(column)
    return table.set_column(index, column, table[column].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))


def judge(demo: Demo, pipeline: Pipeline, answers: pa.Table) -> Verdict:
    """Joins the packets again, elsewhere, and compares the two bags of answers."""
    streams = packets(demo, pipeline)
    if find_spec("duckdb") is not None:
        return judge_by_duckdb(streams, answers)
    return judge_by_oracle(pipeline, streams, answers)


def judge_by_duckdb(streams: dict[str, pa.Table], answers: pa.Table, window_ms: int = WINDOW_MS) -> Verdict:
    """All answers against a database that knows nothing of windows or streams."""
    import duckdb

    window_us = window_ms * 1000
    with duckdb.connect() as database:
        for name, table in {**streams, "answers": answers}.items():
            database.register(name, table)
        database.execute(f"""
            CREATE TABLE expected AS
            SELECT r1.dest, r1.size AS size_1, r2.size AS size_2, r3.size AS size_3,
                   greatest(r1.ts, r2.ts, r3.ts) AS answer_time
            FROM r1 JOIN r2 ON r1.dest = r2.dest AND abs(r1.ts - r2.ts) <= {window_us}
                    JOIN r3 ON r2.dest = r3.dest AND abs(r2.ts - r3.ts) <= {window_us}
                           AND abs(r1.ts - r3.ts) <= {window_us}""")

        def number(sql: str) -> int:
            return int(database.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0])

        return Verdict(
            "DuckDB",
            number("FROM expected"),
            missing=number("FROM expected EXCEPT ALL FROM answers"),
            extra=number("FROM answers EXCEPT ALL FROM expected"),
        )


def judge_by_oracle(
    pipeline: Pipeline, streams: dict[str, pa.Table], answers: pa.Table, sample_rows: int = SAMPLE_ROWS
) -> Verdict:
    """The answers of the destinations that the first packets went to, each with all its packets."""
    first = streams["r1"]["dest"].unique()
    largest = max(table.num_rows for table in streams.values())
    sample = first.slice(0, max(1, len(first) * sample_rows // max(largest, sample_rows)))
    batch = {name: _tuples(_of(table, sample)) for name, table in streams.items()}
    expected = oracle.bag(oracle.run(pipeline.queries[0], [batch], flush=True).rows)
    found = oracle.bag(tuple(row.values()) for row in _of(answers, sample).to_pylist())
    return Verdict(
        f"the oracle, for {len(sample)} of {len(first)} destinations",
        expected.total(),
        missing=(expected - found).total(),
        extra=(found - expected).total(),
    )


def _of(table: pa.Table, destinations: Any) -> pa.Table:
    return table.filter(pc.is_in(table["dest"], value_set=destinations))


def _tuples(table: pa.Table) -> list[oracle.Tuple]:
    return [oracle.Tuple(row["ts"], row) for row in table.to_pylist()]
