"""The micro-batches that Spark's checkpoint has noted down: begun in one log, ended in another."""

from __future__ import annotations

from watersmeet.spark.storage.folder import Folder


def newest_batch(files: Folder) -> int:
    """The newest batch that has its offsets, -1 if none has: it may have to be done again."""
    return _newest(files, "offsets")


def committed_batch(files: Folder) -> int:
    """The newest batch that has ended, -1 if none has."""
    return _newest(files, "commits")


def _newest(files: Folder, log: str) -> int:
    return max((int(name) for name in files.names(f"spark/{log}/*") if name.isdecimal()), default=-1)
