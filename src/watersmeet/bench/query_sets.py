"""Sets of random queries over ten streams of ten attributes, after the workload of the RJoin paper.

A query is a chain over three or four different streams, each pair of neighbours joined on attributes drawn at
random. Key domains are large enough for a tuple to find a partner in a window only now and then: what is
measured is the sharing, not the writing of answers.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.bench.workloads import FIRST_FILE_S, SECOND_US
from watersmeet.query import Column, Stream

STREAMS = 10
ATTRIBUTES = 10


@dataclass(frozen=True)
class QuerySet:
    """Random queries, and the streams they read; with `constants`, so many of each that differ in one."""

    queries: int
    constants: int = 1
    window_s: int = 10
    rows_per_s: int = 200  # of each stream, in event time
    domain: int = 100_000
    seed: int = 0

    @property
    def streams(self) -> tuple[Stream, ...]:
        names = tuple(Column(f"a{n}", "bigint") for n in range(ATTRIBUTES))
        return tuple(Stream(f"s{n}", (*names, Column("ts", "timestamp")), "ts") for n in range(STREAMS))

    def texts(self) -> dict[str, str]:
        """The queries by name."""
        random = np.random.default_rng(self.seed)
        texts: dict[str, str] = {}
        for number in range(-(-self.queries // self.constants)):
            text = self._chain(random)
            for constant in range(self.constants):
                if len(texts) < self.queries:
                    condition = f" AND a.a0 >= {constant}" if self.constants > 1 else ""
                    texts[f"q{number}-{constant}"] = text + condition
        return texts

    def _chain(self, random: np.random.Generator) -> str:
        aliases = "abcd"[: random.integers(3, 5)]
        chosen = random.permutation(STREAMS)[: len(aliases)]
        froms = [
            f"s{stream} [RANGE {self.window_s} SECONDS] AS {alias}"
            for stream, alias in zip(chosen, aliases, strict=True)
        ]
        joins = [
            f"{left}.a{random.integers(ATTRIBUTES)} = {right}.a{random.integers(ATTRIBUTES)}"
            for left, right in itertools.pairwise(aliases)
        ]
        select = ", ".join(f"{alias}.a{random.integers(ATTRIBUTES)} AS {alias}" for alias in aliases)
        return f"SELECT {select}, answer_time FROM {', '.join(froms)} WHERE {' AND '.join(joins)}"

    def declarations(self, data: Path, answers: Path) -> str:
        """The streams over written files, one of each a batch, and a sink for all queries."""
        statements = [
            f"CREATE STREAM {stream.name} ({', '.join(f'{c.name} {c.type}' for c in stream.columns)}) "
            f"WITH (format = 'parquet', path = '{data / stream.name}', event_time = 'ts', "
            "'option.maxFilesPerTrigger' = '1');"
            for stream in self.streams
        ]
        statements.append(
            f"CREATE SINK answers WITH (format = 'parquet', path = '{answers}', answers = 'json');"
        )
        return "\n".join(statements) + "\n"

    def write(self, folder: Path, *, batch_rows: int, batches: int) -> int:
        """Writes the files of all batches; returns the rows written."""
        share = max(1, batch_rows // STREAMS)
        for number, stream in enumerate(self.streams):
            random = np.random.default_rng([self.seed, number])
            (folder / stream.name).mkdir(parents=True)
            for batch in range(batches):
                columns = {
                    c.name: pa.array(random.integers(0, self.domain, share)) for c in stream.columns[:-1]
                }
                ts = ((batch * share + np.arange(share)) * SECOND_US) // self.rows_per_s
                columns["ts"] = pa.array(ts, pa.timestamp("us", tz="UTC"))
                path = folder / stream.name / f"{batch:06}.parquet"
                pq.write_table(pa.table(columns), path)
                os.utime(path, (FIRST_FILE_S + batch, FIRST_FILE_S + batch))
        return share * STREAMS * batches
