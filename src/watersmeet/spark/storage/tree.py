"""What a protocol of commits needs of storage: few operations, each of which happens wholly or not at all."""

from __future__ import annotations

from typing import Protocol


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

    def create(self, path: str, text: str) -> bool:
        """Writes a new file; False, and nothing is changed, if there is one already."""

    def move(self, source: str, target: str) -> None:
        """Renames a file, in place of a target that may be there; nothing if the source is gone."""

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with all it holds; nothing if there is none."""
