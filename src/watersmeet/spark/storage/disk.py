"""Files on this machine's disk that are private, and folders whose entries outlast a crash of the machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def make_private(folder: Path) -> None:
    """Makes a folder for its owner alone, and those above it that are missing."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        with suppress(FileExistsError):  # made by somebody else meanwhile
            each.mkdir(mode=PRIVATE_FOLDER)
        sync_folder(each.parent)


def open_private(path: Path, mode: str) -> IO[str]:
    """Opens a file to write, UTF-8 text, that nobody else may read from the moment it is there."""
    file: IO[str] = open(path, mode, encoding="utf-8", opener=_open_private)  # noqa: SIM115
    with suppress(OSError):  # a file that was there before, and some file systems have no modes
        os.fchmod(file.fileno(), PRIVATE_FILE)
    return file


def _open_private(name: str, flags: int) -> int:
    return os.open(name, flags, PRIVATE_FILE)


def sync_folder(folder: Path) -> None:
    """Puts on the disk which files a folder holds: a rename may otherwise be undone by a loss of power."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with suppress(OSError):  # some file systems cannot, and none needs it more than once
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
