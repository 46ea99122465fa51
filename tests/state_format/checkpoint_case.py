"""The checkpoints under `checkpoints/`, of which each version of the state format has one.

    4/pipeline.sql    a join of three streams
    4/batches.json    all tuples of its streams, batch by batch: [ts, k, v]
    4/checkpoint      as `watersmeet run --available-now` left it after the first half of the batches

Spark writes absolute paths into a checkpoint. They are stored as `PLACEHOLDER`, and put back where it is
resumed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.spark.pipelines import Case
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.sql import parse_pipeline

CHECKPOINTS = Path(__file__).parent / "checkpoints"
PLACEHOLDER = b"@FOLDER@"
FIRST_HALF = 2  # of four batches
# Not stored: the lock, checksums of files that hold paths, and RocksDB's snapshots, which hold the name of
# the machine. Spark then reads the state from its changelogs.
LEFT_OUT = (".crc", ".zip", ".sst", ".lock")


def versions() -> list[int]:
    """The state formats of which there is a checkpoint."""
    return sorted(int(folder.name) for folder in CHECKPOINTS.iterdir())


def store(case: Case, version: int) -> Path:
    """Keeps a checkpoint in place of the one there is of this version; returns its folder."""
    target, own_path = CHECKPOINTS / str(version), str(case.folder).encode()
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted(path for path in case.checkpoint.rglob("*") if path.is_file()):
        if path.suffix not in LEFT_OUT and path.name not in ("progress.json", "run.json"):
            content = path.read_bytes()
            if own_path in content:
                content.decode()  # in a binary file a path of another length would be damage
            _write(target / path.relative_to(case.folder), content.replace(own_path, PLACEHOLDER))
    _write(target / "pipeline.sql", case.file.read_bytes())
    rows = [
        {name: [[t.ts, t.values["k"], t.values["v"]] for t in tuples] for name, tuples in batch.items()}
        for batch in case.batches
    ]
    _write(target / "batches.json", json.dumps(rows).encode())
    return target


def restore(version: int, folder: Path) -> Case:
    """The case in a folder of its own as it stood then, without the files that were read already."""
    stored = CHECKPOINTS / str(version)
    for path in sorted(path for path in stored.rglob("*") if path.is_file()):
        content = path.read_bytes().replace(PLACEHOLDER, str(folder).encode())
        _write(folder / path.relative_to(stored), content)
    batches: list[MicroBatch] = [
        {name: [Tuple(ts, {"k": k, "v": v}) for ts, k, v in tuples] for name, tuples in batch.items()}
        for batch in json.loads((stored / "batches.json").read_text())
    ]
    case = Case(folder, parse_pipeline((stored / "pipeline.sql").read_text()).queries, batches)
    for stream in case.query.streams:
        (folder / stream.name).mkdir(exist_ok=True)
    return case


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
