"""What links report of progress: marks, that no later row of an origin has an earlier t.

A link is a log of files. Each file has the marks that hold once it and all files before it are read, and says
which file comes before. Files may be read in any order: marks count as far as the files are there without a
gap, so no mark ever hides a row that is still to come.

    file 5 after 3 waits; file 3 after none comes: marks of 3, then of 5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import DataError

FIRST = -1  # what comes before a link's first file


@dataclass
class LinkMarks:
    """Follows the links into a site; files go by the number of the batch that wrote them."""

    last: dict[str, int] = field(default_factory=dict)  # of each link, the last file whose marks count
    _waiting: dict[str, dict[int, tuple[int, Mapping[str, int]]]] = field(default_factory=dict)

    def take(self, link: str, number: int, previous: int, marks: Mapping[str, int]) -> None:
        """Notes a file that was read."""
        waiting = self._waiting.setdefault(link, {})
        if number <= self.last.get(link, FIRST) or previous in waiting:
            raise DataError(
                f"the link from {link} brings file {number} twice, as if an older copy of a checkpoint had "
                "been put back. Start all sites anew, with another checkpoint and other links"
            )
        waiting[previous] = (number, marks)

    def due(self) -> dict[str, int]:
        """The marks that count by now and did not before, by origin."""
        found: dict[str, int] = {}
        for link, waiting in self._waiting.items():
            while (known := waiting.pop(self.last.get(link, FIRST), None)) is not None:
                self.last[link], marks = known
                for origin, mark in marks.items():
                    found[origin] = max(mark, found.get(origin, mark))
        return found

    def snapshot(self) -> dict[str, Any]:
        """What to persist, fit for JSON."""
        waiting = [
            [link, previous, number, dict(marks)]
            for link, held in self._waiting.items()
            for previous, (number, marks) in held.items()
        ]
        return {"last": self.last, "waiting": waiting}

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any]) -> LinkMarks:
        found = cls(dict(snapshot["last"]))
        for link, previous, number, marks in snapshot["waiting"]:
            found._waiting.setdefault(link, {})[previous] = (number, marks)
        return found
