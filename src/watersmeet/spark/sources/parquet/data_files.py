"""The files that a file source reads, listed in memory that does not grow with their number.

A folder may hold a million files. Each is looked at once, and of many only some are kept: evenly many of
those that were seen, with the first and the last.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class DataFile(NamedTuple):
    """A file with its size in bytes and when it was modified; files sort by their paths."""

    path: str
    size: int
    modified_ns: int


def data_files(path: Path, loops: list[str] | None = None) -> Iterator[DataFile]:
    """The files that Spark reads of a path or pattern, those without any bytes left out.

    Symbolic links are followed, but not back into a folder that they lie in: such links are added to `loops`.
    """
    links: list[str] = [] if loops is None else loops
    for found in glob.glob(str(path)) or [str(path)]:
        if os.path.isdir(found):
            yield from _files_below(found, frozenset(), links)
        elif (file := _file(found, found)) is not None:
            yield file


def sample_files(
    files: Iterable[DataFile], most: int, order: Callable[[DataFile], Any]
) -> tuple[list[DataFile], int]:
    """At most so many of the files, in order, the first and the last among them; and how many there are."""
    kept: list[DataFile] = []
    first: DataFile | None = None
    last: DataFile | None = None
    count, step = 0, 1
    for file in files:
        if count % step == 0:
            kept.append(file)
            if len(kept) == 2 * most:
                kept, step = kept[::2], 2 * step
        first = file if first is None or order(file) < order(first) else first
        last = file if last is None or order(file) > order(last) else last
        count += 1
    found = sorted({*kept, *(end for end in (first, last) if end is not None)}, key=order)
    if len(found) > most:
        found = [found[number * (len(found) - 1) // (most - 1)] for number in range(most)]
    return found, count


def _files_below(folder: str, inside: frozenset[tuple[int, int]], loops: list[str]) -> Iterator[DataFile]:
    try:
        own = os.stat(folder)
        entries = os.scandir(folder)
    except OSError:  # it has gone, or nobody may look into it: Spark will say so
        return
    if (own.st_dev, own.st_ino) in inside:
        entries.close()
        loops.append(folder)
        return
    inside |= {(own.st_dev, own.st_ino)}
    with entries:
        for entry in entries:
            if _is_hidden(entry.name):
                continue
            if entry.is_dir():
                yield from _files_below(entry.path, inside, loops)
            elif (file := _file(entry, entry.path)) is not None:
                yield file


def _file(entry: os.DirEntry[str] | str, path: str) -> DataFile | None:
    """A file that has bytes; None of what is no file, has none, or is gone."""
    try:
        found = os.stat(entry) if isinstance(entry, str) else entry.stat()
    except OSError:
        return None
    is_file = stat.S_ISREG(found.st_mode) and found.st_size
    return DataFile(path, found.st_size, found.st_mtime_ns) if is_file else None


def _is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder: its own logs, or files still being written."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")
