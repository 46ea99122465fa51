"""What a protocol of commits needs of storage: few operations, each of which happens wholly or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from watersmeet.spark.storage.disk import sync_folder

HIDDEN = ("_", ".")  # readers of data pass over names that begin with these


class Tree(Protocol):
    """Files below a root, by paths relative to it; what fails is an OSError.

    A crash may come before or after any operation. Only `remove` of a folder may be cut short in the middle.
    """

    def names(self, folder: str) -> list[str]:
        """The names of what a folder holds; none if there is no such folder."""

    def files(self, folder: str) -> list[str]:
        """The paths, relative to the folder, of the files at any depth below it, in order.

        Files and folders whose names begin with `_` or `.` are left out, as readers of data leave them out.
        """

    def read(self, path: str) -> str | None:
        """The text of a file; None if there is none."""

    def content(self, path: str, *, at_most: int) -> bytes | None:
        """The bytes of a file; None if there is none, or it has more of them."""

    def size(self, path: str) -> int:
        """How many bytes a file has."""

    def create(self, path: str, text: str) -> bool:
        """Writes a new file; False, and nothing is changed, if there is one already."""

    def sync(self, folder: str) -> None:
        """On return, what `files` lists is where no crash of the machine can undo it."""

    def move(self, source: str, target: str) -> None:
        """Renames a file, in place of a target that may be there; nothing if the source is gone."""

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with all it holds; nothing if there is none."""


@dataclass(frozen=True)
class LocalTree:
    """A folder on this machine's disk."""

    root: Path

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / folder))
        except FileNotFoundError:
            return []

    def files(self, folder: str) -> list[str]:
        found: list[str] = []
        for name in self.names(folder):
            if not name.startswith(HIDDEN):
                path = f"{folder}/{name}"
                is_folder = (self.root / path).is_dir()
                found += [f"{name}/{below}" for below in self.files(path)] if is_folder else [name]
        return found

    def read(self, path: str) -> str | None:
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def content(self, path: str, *, at_most: int) -> bytes | None:
        try:
            with (self.root / path).open("rb") as file:
                found = file.read(at_most + 1)
        except FileNotFoundError:
            return None
        return found if len(found) <= at_most else None

    def size(self, path: str) -> int:
        return (self.root / path).stat().st_size

    def create(self, path: str, text: str) -> bool:
        target = self.root / path
        _make(target.parent)
        with draft_beside(target) as draft:
            draft.write_text(text, encoding="utf-8")
            _sync_file(draft)
            try:
                os.link(draft, target)  # unlike a rename, it never replaces what is there
            except FileExistsError:
                return False
            except OSError:  # no file system for links
                if target.exists():
                    return False
                draft.replace(target)
        sync_folder(target.parent)
        return True

    def sync(self, folder: str) -> None:
        names = self.files(folder)
        for name in names:
            _sync_file(self.root / folder / name)
        for each in {(self.root / folder / name).parent for name in names}:
            sync_folder(each)

    def move(self, source: str, target: str) -> None:
        _make((self.root / target).parent)
        with contextlib.suppress(FileNotFoundError):
            os.replace(self.root / source, self.root / target)
            sync_folder((self.root / target).parent)

    def remove(self, path: str) -> None:
        target = self.root / path
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)  # another run may be removing it too
        else:
            target.unlink(missing_ok=True)


def _make(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def draft_beside(path: Path) -> Iterator[Path]:
    """A hidden file beside another one, of a name that nobody else uses, gone in the end."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)
