"""What a worker reads of one bucket's state: a summary of each section, or the live tuples of one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.layout import TS
from watersmeet.kernel.routing.grid import Grid
from watersmeet.spark.inspect.bucket_rows import BucketState, event_times, read_bucket, rows_with_lives
from watersmeet.spark.inspect.sections import Known, Section, resolve

EVENT_TIME, BUCKET = "event_time", "bucket"
SUMMARY = (
    "section string, bucket int, live bigint, copies bigint, kept bigint, bytes bigint, "
    "oldest bigint, newest bigint, columns array<string>, top string"
)


@dataclass(frozen=True, kw_only=True)
class Look:
    """Reads one bucket, in a worker."""

    grid: Grid
    labels: tuple[int, ...]
    watermark: int
    schema: pa.Schema  # of what is read

    def bucket_of(self, table: pa.Table) -> tuple[int, BucketState]:
        """The number of a bucket, and its state, from the names and values of the store."""
        names, values = table.column("name").to_pylist(), table.column("value").to_pylist()
        label = table.column(BUCKET)[0].as_py()
        return self.labels.index(label), read_bucket(dict(zip(names, values, strict=True)))

    def is_home(self, section: Section, bucket: int) -> bool:
        """Whether the tuples of an input are counted in this bucket, of those that have copies."""
        return section.axes is None or self.grid.is_home(bucket, section.axes)


@dataclass(frozen=True, kw_only=True)
class SummaryLook(Look):
    """A row for each section."""

    sections: Mapping[str, Known]
    top: int  # how many of the most frequent values to name

    def read(self, table: pa.Table) -> pa.Table:
        bucket, state = self.bucket_of(table)
        held = {
            name: resolve(each, state.columns(name))
            for name, each in self.sections.items()
            if name in state.sections
        }
        rows = [{"section": name, **self._of(name, each, bucket, state)} for name, each in held.items()]
        return pa.Table.from_pylist(rows, self.schema)

    def _of(self, name: str, section: Section, bucket: int, state: BucketState) -> dict[str, Any]:
        live = kept = nbytes = 0
        times: list[int] = []
        values: dict[str, list[pa.Array]] = {}
        columns: list[str] = []
        is_home = self.is_home(section, bucket)
        for batch, is_live in rows_with_lives(name, section, state, self.watermark):
            columns, kept, nbytes = batch.schema.names, kept + batch.num_rows, nbytes + batch.nbytes
            live += int(np.count_nonzero(is_live))
            ts = event_times(batch)
            if ts is not None and is_live.any():
                times += [int(ts[is_live].min()), int(ts[is_live].max())]
            for text, column in section.keys if is_home and self.top else ():
                if column in columns:
                    values.setdefault(text, []).append(batch.column(column).filter(pa.array(is_live)))
        return {
            "bucket": bucket,
            "live": live if is_home else 0,
            "copies": 0 if is_home else live,
            "kept": kept,
            "bytes": nbytes,
            "oldest": min(times, default=None),
            "newest": max(times, default=None),
            "columns": columns,
            "top": json.dumps({text: most_frequent(parts, self.top) for text, parts in values.items()}),
        }


@dataclass(frozen=True, kw_only=True)
class TupleLook(Look):
    """The live tuples of one section."""

    name: str
    section: Section
    stored: Mapping[str, str]  # by the name of a column: the one that is kept

    def read(self, table: pa.Table) -> pa.Table:
        bucket, state = self.bucket_of(table)
        if self.name not in state.sections or not self.is_home(self.section, bucket):
            return self.schema.empty_table()
        parts = rows_with_lives(self.name, self.section, state, self.watermark)
        return pa.concat_tables([self._shown(batch.filter(pa.array(live)), bucket) for batch, live in parts])

    def _shown(self, rows: pa.RecordBatch, bucket: int) -> pa.Table:
        own = {EVENT_TIME: rows.column(TS).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))}
        own[BUCKET] = pa.array(np.full(rows.num_rows, bucket, np.int32))
        own |= {name: rows.column(stored) for name, stored in self.stored.items()}
        return pa.Table.from_arrays(
            [own[each.name].cast(each.type) for each in self.schema], schema=self.schema
        )


def most_frequent(parts: Sequence[pa.Array], most: int) -> dict[str, int]:
    """The values that occur most often, as text, and how often each does."""
    values = pa.chunked_array(parts)
    if pa.types.is_nested(values.type):
        return {}
    counted = pc.value_counts(values)
    entries = pa.table({"value": counted.field("values"), "count": counted.field("counts")})
    top = entries.take(pc.select_k_unstable(entries, most, [("count", "descending")]))
    return {"NULL" if row["value"] is None else str(row["value"]): row["count"] for row in top.to_pylist()}
