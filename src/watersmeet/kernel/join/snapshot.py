"""What persists of a join beside its chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from watersmeet.query import BEGINNING


@dataclass(frozen=True)
class Snapshot:
    """The few numbers that persist beside the chunks."""

    watermark: int = BEGINNING
    next_chunk: Mapping[str, int] = field(default_factory=dict)
    newest_position: Mapping[str, int] = field(default_factory=dict)
    next_row: Mapping[str, int] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # first rows, by chunk number

    def to_json(self) -> dict[str, Any]:
        """The numbers but for the watermark, fit for JSON."""
        return {
            "next_chunk": dict(self.next_chunk),
            "newest_position": dict(self.newest_position),
            "next_row": dict(self.next_row),
            "starts": dict(self.starts),
        }

    @classmethod
    def of(cls, watermark: int, numbers: Mapping[str, Any]) -> Snapshot:
        """A snapshot as it was before `to_json`."""
        names = ("next_chunk", "newest_position", "next_row", "starts")
        return cls(watermark, *(numbers[name] for name in names))
