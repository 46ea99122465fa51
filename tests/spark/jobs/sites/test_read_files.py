"""Which files of a link are done with, by Spark's logs: none before the batch that read it is committed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from watersmeet.spark.jobs.sites.read_files import files_read
from watersmeet.spark.storage.folder import Folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for name in ("commits", "offsets", "sources/0", "sources/1"):
        (tmp_path / "spark" / name).mkdir(parents=True)
    return tmp_path


def log(folder: Path, name: str, *files: tuple[int, str]) -> None:
    lines = [json.dumps({"path": f"file:///links/a-to-b/{file}", "batchId": n}) for n, file in files]
    (folder / "spark" / "sources" / name).write_text("\n".join(["v1", *lines]))


def offsets(folder: Path, batch: int, *sources: Any) -> None:
    lines = [json.dumps(source) if source is not None else "-" for source in sources]
    (folder / "spark" / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *lines]))


def read(folder: Path) -> set[str]:
    return files_read(Folder(cast(Any, None), str(folder)))


def test_files_of_committed_batches_alone_are_done_with(checkpoint: Path) -> None:
    assert read(checkpoint) == set()
    log(checkpoint, "1/0", (0, "x-0-0.parquet"))
    log(checkpoint, "1/1", (1, "x-1-0.parquet"))
    log(checkpoint, "1/2", (2, "x-2-0.parquet"))
    offsets(checkpoint, 0, None, {"logOffset": 0})
    offsets(checkpoint, 1, {"logOffset": 5}, {"logOffset": 1})
    offsets(checkpoint, 2, {"logOffset": 5}, {"logOffset": 2})
    assert read(checkpoint) == set(), "batch 0 has begun, and nothing is committed"
    for batch in (0, 1):
        (checkpoint / "spark" / "commits" / str(batch)).write_text("v1\n{}")
    assert read(checkpoint) == {"x-0-0.parquet", "x-1-0.parquet"}


def test_compacted_logs_are_read_once(checkpoint: Path) -> None:
    log(checkpoint, "0/1", (1, "gone.parquet"))
    log(checkpoint, "0/9.compact", (0, "a%20b-0-0.parquet"), (9, "x-9-0.parquet"))
    log(checkpoint, "0/10", (10, "x-10-0.parquet"))
    (checkpoint / "spark" / "sources" / "0" / ".10.crc").write_text("")
    offsets(checkpoint, 12, {"logOffset": 9}, {"partition": {"0": 3}})
    (checkpoint / "spark" / "commits" / "12").write_text("v1\n{}")
    assert read(checkpoint) == {"a b-0-0.parquet", "x-9-0.parquet"}
