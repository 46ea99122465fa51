"""The sources of a scripted micro-batch: rows projected as Spark would, or Parquet files and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.kernel import IN_VIEW, MARK, TS
from watersmeet.oracle.evaluate import evaluate
from watersmeet.oracle.views import branch_rows
from watersmeet.query import Branch, Expr, Stream
from watersmeet.query.arrow_types import arrow_type
from watersmeet.spark.exchange.collect import NOW
from watersmeet.spark.exchange.file_input import INPUT, PATH
from watersmeet.spark.exchange.messages import UNKNOWN
from watersmeet.spark.sources.parquet.files import is_plain
from watersmeet.testing.script import Row

Projected = tuple[str, str, str | None]  # name, SQL text, Spark's name of the type where known


@dataclass(frozen=True)
class Arrived:
    """What a micro-batch brings, cut into the tasks that read it."""

    streams: Mapping[str, Stream]
    rows: Mapping[str, Sequence[Row]]
    now_us: int | None  # the batch's own time, where the script gives one
    tasks: int = 1
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)  # names, where streams are files

    def project(
        self, stream: str, names: Iterable[str], columns: Sequence[Projected], branch: Branch | None = None
    ) -> list[pa.RecordBatch]:
        """The rows of a stream under these names as Spark would project them, a batch for each task.

        With a branch of a view they are its rows.
        """
        source, under = self.streams[stream], list(names)
        rows = self.rows.get(stream, ())
        if branch is not None:
            rows = [made for row in rows for made in _view_rows(source, branch, row, self.now_us)]
        found = []
        for part in _cut(rows, self.tasks):
            arrays = [_column(source, part, under, each, self.now_us) for each in columns]
            found.append(pa.RecordBatch.from_arrays(arrays, [name for name, _, _ in columns]))
        return found

    def name_files(self, numbered: Iterable[tuple[int, str]], *, reports_time: bool) -> list[pa.RecordBatch]:
        """Rows (input, path) of the files of some streams, a batch for each task."""
        named = [
            {INPUT: number, PATH: path} for number, stream in numbered for path in self.files.get(stream, ())
        ]
        if reports_time and self.now_us is not None:
            named = [{**row, NOW: self.now_us} for row in named]
        return [pa.RecordBatch.from_pylist(part) for part in _cut(named, self.tasks)]


def may_be_files(stream: Stream) -> bool:
    """Whether the engine would read the Parquet files of a stream itself."""
    if stream.event_time is None or stream.computed_time is not None:
        return False
    return all(is_plain(column.type) for column in stream.columns)


def write_files(folder: Path, stream: Stream, rows: Sequence[Row], tasks: int) -> list[str]:
    """The tuples as Parquet files, named as Spark names them."""
    names = []
    for number, part in enumerate(_cut(rows, tasks)):
        columns = {
            column.name: pa.array([row[column.name] for row in part], arrow_type(column.type))
            for column in stream.columns
        }
        path = folder / f"{stream.name}-{number}.parquet"
        pq.write_table(pa.table(columns), path)
        names.append(path.as_uri())
    return names


def _view_rows(stream: Stream, branch: Branch, row: Row, now_us: int | None) -> list[Row]:
    """What a branch makes of a row; a row that it leaves out stays, marked, with its event time alone."""
    nothing: dict[str, Any] = {column.name: None for column in branch.steps[-1].columns}
    made = [{**each, IN_VIEW: True} for each in branch_rows(branch, row)] or [{**nothing, IN_VIEW: False}]
    return [{**each, TS: _time(stream, row, now_us), MARK: row.get(MARK)} for each in made]


def _column(
    stream: Stream, rows: Sequence[Row], names: Sequence[str], column: Projected, now_us: int | None
) -> pa.Array:
    name, sql, type_ = column
    if name == NOW:
        return pa.array([UNKNOWN if now_us is None else now_us] * len(rows), pa.int64())
    if name == MARK:
        return pa.array([row.get(MARK) for row in rows], pa.int64())
    if name == TS:
        values = [row[TS] if TS in row else _time(stream, row, now_us) for row in rows]
        return pa.array(values, pa.int64())
    expr = Expr(sql)
    found = [evaluate(expr, dict.fromkeys(names, row)) for row in rows]
    return typed_array(found, type_)


def _time(stream: Stream, row: Row, now_us: int | None) -> int | None:
    found: int | None = row[stream.event_time] if stream.event_time else now_us or 0
    return found


def typed_array(values: Sequence[Any], type_: str | None) -> pa.Array:
    """Values as a column of a type, which is found from them where it is not known."""
    array = pa.array(values, arrow_type(type_) if type_ else None)
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array


def _cut(rows: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """Rows in so many parts or fewer, none of them empty."""
    size = -(-len(rows) // parts) if rows else 1
    return [rows[start : start + size] for start in range(0, len(rows), size)]
