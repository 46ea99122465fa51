"""Paths as people and Spark write them: which are on this machine's disk, and where."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")


def has_scheme(path: str) -> bool:
    """Whether a path names its file system."""
    return bool(_SCHEME.match(path))


def is_remote(path: str) -> bool:
    """Whether a path names a file system other than this machine's disk."""
    return has_scheme(path) and not path.startswith("file:")


def on_this_disk(path: str) -> Path | None:
    """The path without its `file:` scheme, or None if it names another file system."""
    if path.startswith("file:"):
        return Path("/" + path.removeprefix("file:").lstrip("/"))
    return None if has_scheme(path) else Path(path)
