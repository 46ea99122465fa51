"""Files without rows are not published."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from watersmeet.spark.sinks.empty_files import LARGEST, holds_no_rows, remove_empty
from watersmeet.spark.storage.tree import LocalTree

NONE = pa.table({"k": pa.array([], pa.int64())})
ONE = pa.table({"k": pa.array([1], pa.int64())})


def parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def test_a_file_without_rows_is_known_by_its_format() -> None:
    assert holds_no_rows(parquet(NONE), "parquet")
    assert not holds_no_rows(parquet(ONE), "parquet")
    for table, is_empty in ((NONE, True), (ONE, False)):
        file = io.BytesIO()
        orc.write_table(table, file)
        assert holds_no_rows(file.getvalue(), "orc") == is_empty
    assert holds_no_rows(b"", "csv")
    assert not holds_no_rows(b"what is this", "parquet"), "what nobody can read stays"


def test_only_the_first_tasks_small_files_are_looked_at(tmp_path: Path) -> None:
    files = {
        "part-00000-a.json": b"",
        "k=1/part-00000-a.json": b"",
        "part-00001-a.json": b"",
        "part-00000-b.json": b" " * (LARGEST + 1),
    }
    for name, content in files.items():
        (tmp_path / "s" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "s" / name).write_bytes(content)
    left = ["part-00000-b.json", "part-00001-a.json"]
    assert remove_empty(LocalTree(tmp_path), "s", "json") == left
    assert LocalTree(tmp_path).files("s") == left
