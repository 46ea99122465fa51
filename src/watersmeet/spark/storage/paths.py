"""Paths as people and Spark write them: which of them are on this machine's disk."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")


def has_scheme(path: str) -> bool:
    """Whether a path names its file system."""
    return bool(_SCHEME.match(path))


def local_path(path: str) -> Path | None:
    """A path on this machine's disk, without its `file:` scheme; None if it names another file system.

    >>> local_path("file:///data/a"), local_path("s3a://bucket/a")
    (PosixPath('/data/a'), None)
    """
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if has_scheme(path) else Path(path)
