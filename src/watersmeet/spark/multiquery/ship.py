"""A ring on its way to the workers.

A small one travels with the tasks. A large one, of thousands of queries, is a file that Spark brings to every
executor once (`addFile`), and a worker reads once: unpickling it with every task would take longer than the
task. Spark's broadcast variables would be the plain way, but a stateful stage fails with them: the process in
which Spark first initialises it has none (Spark 4.3).
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import pickle
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from watersmeet.query.shared_dataflow import SharedDataflow

INLINE_BYTES = 64 << 10


@dataclass(frozen=True)
class SharedShip:
    """Where a worker finds the ring; `digest` tells rings apart."""

    digest: str
    inline: SharedDataflow | None = None

    @property
    def dataflow(self) -> SharedDataflow:
        return self.inline if self.inline is not None else _read(self.digest)


def ship_inline(dataflow: SharedDataflow) -> SharedShip:
    """The dataflow with every task, whatever its size."""
    return SharedShip(_digest(pickle.dumps(dataflow)), dataflow)


def ship_dataflow(spark: SparkSession, dataflow: SharedDataflow) -> SharedShip:
    """Makes a ring known to all workers, present and future."""
    blob = pickle.dumps(dataflow)
    digest = _digest(blob)
    if len(blob) <= INLINE_BYTES:
        return SharedShip(digest, dataflow)
    path = _folder() / _file(digest)
    if not path.exists():
        path.write_bytes(blob)
    spark.sparkContext.addFile(str(path))  # executors fetch it from there, whenever they start
    return SharedShip(digest)


def _digest(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()[:16]


@functools.cache
def _folder() -> Path:
    """A folder of this process for what executors may fetch until it ends."""
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _file(digest: str) -> str:
    return f"watersmeet-ring-{digest}.pickle"


@functools.lru_cache(maxsize=2)
def _read(digest: str) -> SharedDataflow:
    dataflow: SharedDataflow = pickle.loads(Path(SparkFiles.get(_file(digest))).read_bytes())
    return dataflow
