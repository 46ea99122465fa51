"""Files are read as Spark reads them, or refused, whatever their folders and whatever happens to them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import QUERIES, random_batches, write_case
from watersmeet.errors import DataError
from watersmeet.oracle.oracle import Tuple
from watersmeet.query import Column, Connector, Stream
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.sources.parquet.folder_columns import column_root
from watersmeet.spark.sources.parquet.rows import FileColumn, read_rows
from watersmeet.spark.sources.parquet.schema import check_parquet
from watersmeet.spark.tuning import Tuning


@dataclass(frozen=True)
class Odd:
    """A file with k = 1, v = 2, where it lies, and as what it is read."""

    file: str
    source: str  # the path a stream declares
    columns: str = "k bigint, v bigint, x string"
    options: tuple[tuple[str, str], ...] = ()
    refused: bool = False  # what Spark reads and we leave to it, or neither reads


ODD = {
    "column in file and folder": Odd("k=5/f", "."),
    "other case": Odd("K=5/f", "."),
    "column in a folder": Odd("x=a%20b%3D/f", "."),
    "no UTF-8 in escapes": Odd("x=%C3%BC-ü/f", "."),
    "column nowhere": Odd("f", "."),
    "undeclared column": Odd("z=1/f", "."),
    "no value": Odd("k=__HIVE_DEFAULT_PARTITION__/f", "."),
    "folders above the source": Odd("x=7/k=5/in/f", "x=7/k=5/in"),
    "above and below": Odd("x=7/in/k=5/f", "x=7/in"),
    "a pattern of folders": Odd("k=5/f", "k=*"),
    "a pattern of files": Odd("k=5/f", "k=*/*"),
    "a pattern, and a base": Odd("k=5/f", "k=*/*", options=(("basePath", "."),)),
    "a folder between": Odd("k=5/plain/x=2/f", "."),
    "a folder between, then none": Odd("k=5/plain/f", "."),
    "recursive": Odd("k=5/x=1/f", ".", options=(("recursiveFileLookup", "true"),)),
    "zeros": Odd("k=007/f", "."),
    "plus": Odd("k=+5/f", "."),
    "minus": Odd("k=-5/f", "."),
    "day": Odd("d=2024-05-01/f", ".", "d date, v bigint"),
    "small": Odd("k=-128/f", ".", "k tinyint, v bigint"),
    "too large": Odd("k=300/f", ".", "k tinyint, v bigint", refused=True),  # Spark reads 44
    "no number": Odd("k=abc/f", ".", refused=True),
    "a float": Odd("k=1.5/f", ".", "k double, v bigint", refused=True),
    "hidden unless it gives a column": Odd("_k=5/f", "."),
}


def _rows(files: Sequence[str], stream: Stream, path: Path) -> list[tuple[Any, ...]]:
    assert stream.source is not None
    root = column_root(path, stream.source)
    columns = tuple(FileColumn(c.name, c.name, c.type, root=root) for c in stream.columns)
    parts = [part for file in files for part in read_rows(f"file:{file}", columns, None)]
    return [tuple(row.values()) for part in parts for row in part.to_pylist()]


def test_files_in_odd_folders_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's source of files reads those of a batch so: by name, with the path as base unless a pattern."""
    compared = 0
    for number, (name, odd) in enumerate(ODD.items()):
        base = tmp_path / f"{number}"
        file = base / odd.file
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"k": [1], "v": [2]}), file)
        path = Path(os.path.normpath(base / odd.source))
        options = {key: str(base) if key == "basePath" else value for key, value in odd.options}
        columns = tuple(Column(*each.split(" ")) for each in odd.columns.split(", "))
        source = Connector("parquet", (("path", str(path)), *options.items()))
        stream = Stream("s", columns, source=source)
        if odd.refused:
            with pytest.raises(DataError, match=r"lies in the folder .*directFiles=false"):
                _rows([str(file)], stream, path)
            continue
        if not glob.has_magic(str(path)):
            options["basePath"] = str(path)
        frame = spark.read.schema(odd.columns).options(**options).parquet(str(file))
        expected = [tuple(row) for row in frame.select(*(c.name for c in columns)).collect()]
        assert _rows([str(file)], stream, path) == expected, name
        compared += len(expected)
    assert compared >= 20


def test_the_check_at_the_start_knows_which_folders_give_columns(tmp_path: Path) -> None:
    def check(path: Path, *columns: Column) -> None:
        source = Connector("parquet", (("path", str(path)),))
        check_parquet(Stream("s", columns, source=source), path)

    inside = tmp_path / "x=7" / "in"
    (inside / "day=2024-05-01").mkdir(parents=True)
    pq.write_table(pa.table({"k": [1], "day": ["no date"]}), inside / "day=2024-05-01" / "f.parquet")
    (inside / "day=2024-05-01" / "empty.parquet").touch()
    check(inside, Column("k", "bigint"), Column("day", "date"))
    with pytest.raises(DataError, match="it has no column x"):
        check(inside, Column("x", "bigint"))


def test_a_file_that_is_cut_short_or_rewritten_while_it_is_read_is_named(tmp_path: Path) -> None:
    """Memory that maps a file would be gone with its end, and the worker with it."""
    columns, few = (FileColumn("x", "x", "bigint"),), Tuning(read_rows=1024)
    table = pa.table({"x": list(range(200_000))})
    for name, change in (
        ("cut", lambda path: os.truncate(path, 5000)),
        ("rewritten", lambda path: pq.write_table(table.slice(7), path)),
        ("replaced", lambda path: os.replace(tmp_path / "other", path)),
    ):
        path = tmp_path / f"{name}.parquet"
        for target in (path, tmp_path / "other"):
            pq.write_table(table, target, row_group_size=20_000)
        parts = read_rows(f"file:{path}", columns, None, few)
        assert next(parts).num_rows
        change(path)
        with pytest.raises(DataError, match=rf"{name}\.parquet was changed while it was read"):
            list(parts)


def test_a_query_reads_columns_from_folders_and_passes_over_empty_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All tuples of s1 have the key of their folder, not that of their file."""
    batches = random_batches(seed=41, count=1, keys=4)
    case = write_case(tmp_path / "x=1", QUERIES["plain"], batches)
    folder = case.folder / "s1"
    (folder / "k=3").mkdir()
    (folder / "0000.parquet").rename(folder / "k=3" / "0000.parquet")
    (folder / "k=3" / "0001.parquet").touch()
    keyed = [Tuple(each.ts, {**each.values, "k": 3}) for each in batches[0]["s1"]]
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True))
    replace(case, batches=[{**batches[0], "s1": keyed}]).check(spark, flush=False)
