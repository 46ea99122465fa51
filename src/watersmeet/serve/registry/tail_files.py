"""Answers for `watersmeet tail`: readers ask for them, the server writes them to a file, batch by batch.

    tails/NAME.want   touched by readers; when nobody has touched it for a while, the answers are not wanted
    tails/NAME.jsonl  '# BATCH COUNT WRITER', then that many answers; a batch that is repeated is in it twice

A reader shows a batch once all of it is there, and skips batches that it has shown before. The writer is the
shared dataflow, '-', or a query beside it, which has batches of its own.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.spark.storage.disk import PRIVATE_FILE, make_private, open_private

TAILS = "tails"
SHARED = "-"
FRESH_S = 15.0
TOUCH_S = 2.0
MAX_BYTES = 64_000_000  # of a file, after which a new one is begun


@dataclass(frozen=True)
class TailWriter:
    """The server's side."""

    folder: RegistryFolder

    def wanted(self) -> list[str]:
        """The queries whose answers some reader waits for."""
        names = self.folder.names(TAILS, ".want")
        return [name for name in names if (self.folder.age_s(f"{TAILS}/{name}.want") or 0) < FRESH_S]

    def append(self, batch: int, answers: Mapping[str, list[str]], writer: str = SHARED) -> None:
        """Writes a batch's answers for the readers that wait."""
        for name, texts in answers.items():
            path = self.folder.path / TAILS / f"{name}.jsonl"
            # The empty line ends whatever a killed server has left half-written.
            block = "\n".join(["", f"# {batch} {len(texts)} {writer}", *texts, ""])
            if path.exists() and path.stat().st_size > MAX_BYTES:
                path.unlink()
            with open_private(path, "a") as file:
                file.write(block)

    def sweep(self) -> None:
        """Removes what nobody waits for any more."""
        wanted = set(self.wanted())
        for suffix in (".want", ".jsonl"):
            for name in self.folder.names(TAILS, suffix):
                if name not in wanted:
                    self.folder.remove(f"{TAILS}/{name}{suffix}")


@dataclass
class TailReader:
    """A reader's side: the answers of one query from now on."""

    folder: RegistryFolder
    name: str
    _file: IO[str] | None = None
    _rest: str = ""  # the beginning of a line that is not complete yet
    _batch: tuple[str, int, int] | None = None  # writer, number and count of answers of the batch being read
    _held: list[str] = field(default_factory=list)
    _shown: tuple[str, int] = (SHARED, -1)  # the writer and the number of the batch shown last
    _touched: float = float("-inf")

    def open(self) -> None:
        """Skips what is there, and lets the server know that somebody waits."""
        self._reopen()
        if self._file is not None:
            self._file.seek(0, io.SEEK_END)
        self.want()

    def want(self) -> None:
        """Lets the server know that somebody still waits."""
        if time.monotonic() - self._touched > TOUCH_S:
            self._touched = time.monotonic()
            path = self.folder.path / TAILS / f"{self.name}.want"
            make_private(path.parent)
            path.touch(mode=PRIVATE_FILE)

    def read(self) -> list[str]:
        """The answers of batches that were written since the last call."""
        found: list[str] = []
        while True:
            for line in self._lines():
                found += self._take(line)
            if not self._reopen():
                return found

    def _lines(self) -> Iterator[str]:
        if self._file is None:
            return
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        yield from lines

    def _take(self, line: str) -> list[str]:
        if line.startswith("# "):
            self._held = []
            match line[2:].split():
                case [number, count, writer]:
                    self._batch = writer, int(number), int(count)
                case _:  # cut off
                    self._batch = None
        elif line and self._batch is not None:
            self._held.append(line)
        if self._batch is None or len(self._held) < self._batch[2]:
            return []
        (writer, batch, _), answers = self._batch, self._held
        self._batch, self._held = None, []
        if writer == self._shown[0] and batch <= self._shown[1]:
            return []
        self._shown = writer, batch
        return answers

    def _reopen(self) -> bool:
        """Opens the file if there is one and it is not the one already open; whether it did."""
        path = self.folder.path / TAILS / f"{self.name}.jsonl"
        try:
            file = path.open(encoding="utf-8")
        except FileNotFoundError:
            return False
        if self._file is not None:
            if os.path.sameopenfile(self._file.fileno(), file.fileno()):
                file.close()
                return False
            self._file.close()
        self._file, self._rest, self._batch = file, "", None
        return True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
