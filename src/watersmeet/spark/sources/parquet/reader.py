"""Reads parquet files for the join, wide text later than the rest where that pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.spark.exchange.file_reader import NamedFile
from watersmeet.spark.sources.parquet.late_columns import late_columns, refer
from watersmeet.spark.sources.parquet.rows import FileColumn, read_rows
from watersmeet.spark.tuning import DEFAULT, Tuning


@dataclass(frozen=True)
class ParquetReader:
    """Reads the parquet files of one input."""

    columns: tuple[FileColumn, ...]
    buckets: int = 1  # that would each open the files again for what comes late
    may_be_late: bool = False  # whether wide columns may come after the join
    tuning: Tuning = DEFAULT

    def read(self, files: Sequence[NamedFile]) -> Iterator[pa.RecordBatch]:
        """The rows of these files, with references in place of columns that come late."""
        paths = [file.path for file in files]
        late: tuple[FileColumn, ...] = ()
        if self.may_be_late:
            late = late_columns(paths, self.columns, self.buckets, self.tuning)
        now = tuple(column for column in self.columns if column not in late)
        for number, file in enumerate(files):
            rows = read_rows(file.path, now, file.now_us, self.tuning)
            yield from refer(rows, number, paths) if late else rows
