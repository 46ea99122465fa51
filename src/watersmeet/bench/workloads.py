"""The workloads: a query, and the tuples of its streams as Parquet files, one per stream and micro-batch.

Event times run at the same pace in all streams, in order, so no tuple is late for any engine. Key domains are
chosen so that a tuple takes part in about 0.04 answers, unless the workload is about something else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.query import Column, Query, Stream
from watersmeet.sql import bind_query

SECOND_US = 1_000_000
FIRST_FILE_S = 1_000_000  # file times give Spark the order of the batches

Draw = Callable[[np.random.Generator, int], npt.NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A join over streams of equal rate; `keys` draws the values of each key column of each stream."""

    name: str
    about: str
    keys: tuple[tuple[str, ...], ...]  # the key columns of each stream
    equalities: tuple[tuple[str, str], ...]
    domain: int
    window_s: int = 10
    rows_per_s: int = 1000  # of each stream, in event time
    skew: float = 0.0
    payload_bytes: int = 0
    matching: float = 1.0  # the part of the tuples whose key may match at all
    windows: tuple[str, ...] = ()  # of each stream, as they are written; none: RANGE of `window_s` for all

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple("abcdefgh"[: len(self.keys)])

    @property
    def streams(self) -> tuple[Stream, ...]:
        return tuple(
            Stream(f"s{number}", self._columns(names), "ts")
            for number, names in enumerate(self.keys, start=1)
        )

    def _columns(self, names: tuple[str, ...]) -> tuple[Column, ...]:
        payload = (Column("note", "string"),) if self.payload_bytes else ()
        keys = tuple(Column(name, "bigint") for name in names)
        return (*keys, Column("size", "bigint"), *payload, Column("ts", "timestamp"))

    @property
    def sql(self) -> str:
        """The query, answering with the sizes and the payload of every tuple."""
        columns = ["size", *(["note"] if self.payload_bytes else [])]
        select = ", ".join(f"{alias}.{name} AS {name}_{alias}" for alias in self.aliases for name in columns)
        windows = self.windows or (f"[RANGE {self.window_s} SECONDS]",) * len(self.keys)
        froms = ", ".join(
            f"{stream.name} {window} AS {alias}"
            for stream, window, alias in zip(self.streams, windows, self.aliases, strict=True)
        )
        where = " AND ".join(f"{left} = {right}" for left, right in self.equalities)
        return f"SELECT {select}, answer_time FROM {froms} WHERE {where}"

    @property
    def query(self) -> Query:
        return bind_query(self.sql, self.streams)

    def pipeline(self, data: Path, answers: Path) -> str:
        """The query as a pipeline file over the data written to a folder, one file of each stream a batch."""
        statements = [
            f"CREATE STREAM {stream.name} ({', '.join(f'{c.name} {c.type}' for c in stream.columns)})\n"
            f"  WITH (format = 'parquet', path = '{data / stream.name}', event_time = 'ts',\n"
            f"        'option.maxFilesPerTrigger' = '1');"
            for stream in self.streams
        ]
        statements.append(f"CREATE SINK answers WITH (format = 'parquet', path = '{answers}');")
        return "\n".join([*statements, f"INSERT INTO answers\n{self.sql};"]) + "\n"

    def write(self, folder: Path, *, batch_rows: int, batches: int, seed: int = 0) -> int:
        """Writes the files of all batches; returns the rows written."""
        share = max(1, batch_rows // len(self.keys))
        for number, stream in enumerate(self.streams):
            random = np.random.default_rng([seed, number])
            (folder / stream.name).mkdir(parents=True)
            for batch in range(batches):
                path = folder / stream.name / f"{batch:06}.parquet"
                pq.write_table(self.table(random, number, batch * share, share), path)
                os.utime(path, (FIRST_FILE_S + batch, FIRST_FILE_S + batch))
        return share * len(self.keys) * batches

    def table(self, random: np.random.Generator, stream: int, first: int, rows: int) -> pa.Table:
        """Tuples `first` to `first + rows` of one stream."""
        columns: dict[str, Any] = {
            name: pa.array(self._draw(random, stream, rows)) for name in self.keys[stream]
        }
        columns["size"] = pa.array(random.integers(40, 1500, rows))
        if self.payload_bytes:
            letters = random.integers(97, 123, self.payload_bytes * rows, dtype=np.uint8).tobytes()
            offsets = np.arange(0, self.payload_bytes * rows + 1, self.payload_bytes, dtype=np.int32)
            columns["note"] = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
        ts = ((first + np.arange(rows)) * SECOND_US) // self.rows_per_s
        columns["ts"] = pa.array(ts, pa.timestamp("us", tz="UTC"))
        return pa.table(columns)

    def _draw(self, random: np.random.Generator, stream: int, rows: int) -> npt.NDArray[np.int64]:
        if self.skew:
            weights = 1.0 / np.arange(1, self.domain + 1) ** self.skew
            drawn = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(rows))
            return np.minimum(drawn, self.domain - 1).astype(np.int64)
        drawn = random.integers(0, self.domain, rows)
        if self.matching < 1.0:
            alone = random.random(rows) >= self.matching  # a range of keys that no other stream has
            drawn[alone] += self.domain * (stream + 1)
        return drawn


NETMON3 = Workload(
    name="netmon3",
    about="three routers, packets with the same destination",
    keys=(("dest",),) * 3,
    equalities=(("a.dest", "b.dest"), ("b.dest", "c.dest")),
    domain=50_000,
)

WORKLOADS = {
    workload.name: workload
    for workload in (
        NETMON3,
        Workload(
            name="star5",
            about="five streams, one key",
            keys=(("k",),) * 5,
            equalities=(("a.k", "b.k"), ("a.k", "c.k"), ("a.k", "d.k"), ("a.k", "e.k")),
            domain=30_000,
        ),
        Workload(
            name="chain4",
            about="four streams, a different attribute for each neighbour",
            keys=(("a",), ("a", "b"), ("b", "c"), ("c",)),
            equalities=(("a.a", "b.a"), ("b.b", "c.b"), ("c.c", "d.c")),
            domain=40_000,
        ),
        Workload(
            name="cycle3",
            about="a triangle on three attributes",
            keys=(("x", "z"), ("x", "y"), ("y", "z")),
            equalities=(("a.x", "b.x"), ("b.y", "c.y"), ("c.z", "a.z")),
            domain=2_000,
        ),
        replace(NETMON3, name="zipf3", about="one key, Zipf 0.9 over 10,000 values", domain=10_000, skew=0.9),
        replace(
            NETMON3,
            name="wide3",
            about="a kilobyte of payload, one tuple in a hundred may match",
            payload_bytes=1024,
            matching=0.01,
            domain=500,
        ),
        replace(
            NETMON3,
            name="long3",
            about="windows and keys a hundred times larger, millions of live tuples",
            window_s=1000,
            domain=5_000_000,
        ),
    )
}
