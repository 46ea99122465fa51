"""Paths as people write them and as Spark is given them: one rule says which file system each is on.

A path that names no file system is on this machine's disk, wherever it is written: in a pipeline file, for a
source, a sink or dead letters, where it starts from the file's folder; or as a checkpoint or the folder of a
shared dataflow, where it starts from the working directory. Hadoop's `fs.defaultFS` changes nothing about
that; to mean it, name its scheme: `hdfs:///data`. All that Spark is given goes through `spark_path`.
"""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")


def has_scheme(path: str) -> bool:
    """Whether a path names its file system."""
    return bool(_SCHEME.match(path))


def spark_path(path: Path | str, base: Path | str = "") -> str:
    """A path as Spark is given it, with its file system; relative ones start from `base`.

    >>> spark_path("in/*.parquet", "/flows"), spark_path("hdfs:///in", "/flows")
    ('file:/flows/in/*.parquet', 'hdfs:///in')
    """
    text = str(path)
    return text if has_scheme(text) else f"file:{(Path(base) / Path(text).expanduser()).absolute()}"


def unpatterned(path: str) -> str:
    r"""A path for where Spark also takes patterns, so that it means the folder of this very name.

    >>> unpatterned("file:/flows/my [1]/in")
    'file:/flows/my \\[1\\]/in'
    """
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def local_path(path: str) -> Path | None:
    """A path on this machine's disk, without its `file:` scheme; None if it names another file system.

    >>> local_path("file:///data/a"), local_path("s3a://bucket/a")
    (PosixPath('/data/a'), None)
    """
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if has_scheme(path) else Path(path)
