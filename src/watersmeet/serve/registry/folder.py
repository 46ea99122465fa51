"""The folder of a shared dataflow, which its server and its clients share.

DIR/dataflow.json     the record: streams, queries, requests handled; written by the server alone
DIR/requests/ID.json  what clients request, each file written whole
DIR/replies/ID.json   what the server replies
DIR/status.json       what the server last said about itself
DIR/tails/            answers for `watersmeet tail`
DIR/lock              held by the server while it runs
DIR/spark             Spark's checkpoint, unless it is kept elsewhere
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from watersmeet.errors import ConfigurationError
from watersmeet.spark.storage.disk import PRIVATE_FILE, make_private, open_private
from watersmeet.spark.storage.folder import write_whole
from watersmeet.spark.storage.paths import has_scheme

LOCK = "lock"
_LOCK_PATIENCE_S = 1.0  # a client that checks whether the lock is held holds it for a moment itself


@dataclass(frozen=True)
class RegistryFolder:
    """Reads and writes files of the folder by name."""

    path: Path

    def __post_init__(self) -> None:
        if has_scheme(str(self.path)):
            raise ConfigurationError(
                f"the folder of a shared dataflow is on this machine's disk, and {self.path} is not: name "
                "one here, and put Spark's checkpoint there with --checkpoint"
            )

    def read(self, name: str) -> str | None:
        """The text of a file, or None if there is none."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{self.path / name} cannot be read: {_said(error)}") from None

    def write(self, name: str, text: str) -> None:
        """Puts a text in place whole, or not at all."""
        path = self.path / name
        try:
            write_whole(path, text, path.with_name(f".{path.name}.{os.getpid()}.tmp"))
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be written: {_said(error)}") from None

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        with suppress(OSError):
            (self.path / name).unlink()

    def names(self, folder: str, suffix: str) -> list[str]:
        """The files of a subfolder that end in this suffix, in order, without it; drafts are skipped."""
        found = (self.path / folder).glob(f"[!.]*{suffix}")
        return sorted(path.name.removesuffix(suffix) for path in found)

    def size(self, name: str) -> int | None:
        """The bytes of a file; None if it is not there."""
        try:
            return (self.path / name).stat().st_size
        except OSError:
            return None

    def age_s(self, name: str) -> float | None:
        """How long ago a file was written or touched; None if it is not there."""
        try:
            return time.time() - (self.path / name).stat().st_mtime
        except OSError:
            return None

    @contextmanager
    def serving(self) -> Iterator[None]:
        """While open, no other process serves the folder; if this one is killed the system unlocks it."""
        for record in self.path.glob("*.json"):  # of a version that let others read it
            with suppress(OSError):
                record.chmod(PRIVATE_FILE)
        with self._open_lock() as file:
            deadline = time.monotonic() + _LOCK_PATIENCE_S
            while not _lock(file.fileno()):
                if time.monotonic() > deadline:
                    raise ConfigurationError(
                        f"{self.path} is served already: only one server at a time. Stop that one first, or "
                        "serve another folder"
                    )
                time.sleep(0.05)
            yield

    def _open_lock(self) -> IO[str]:
        try:
            make_private(self.path)
            return open_private(self.path / LOCK, "a")
        except OSError as error:
            raise ConfigurationError(f"{self.path} cannot be written: {_said(error)}") from None

    def is_served(self) -> bool:
        """Whether a server runs."""
        try:
            with (self.path / LOCK).open() as file:
                return not _lock(file.fileno())
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise ConfigurationError(f"{self.path / LOCK} cannot be read: {_said(error)}") from None


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _said(error: OSError | UnicodeDecodeError) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else "it is not UTF-8 text"
