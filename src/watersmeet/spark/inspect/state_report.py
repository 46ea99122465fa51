"""What a query keeps, summed over its buckets; for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.spark.inspect.read_state import CheckpointState, SectionReport
from watersmeet.spark.inspect.sections import Holding, Section


@dataclass(frozen=True)
class StateReport:
    """The state of one query, as a batch left it."""

    batch: int
    watermark: int | None
    parts: tuple[SectionReport, ...]
    top: int
    has_copies_of_hot_values: bool

    def sections(self) -> dict[Section, list[SectionReport]]:
        """Its parts by what they are: tuples first, of each input in order of its name."""
        found: dict[Section, list[SectionReport]] = {}
        kinds = list(Holding)
        for part in sorted(self.parts, key=lambda each: (kinds.index(each.section.holds), each.section.of)):
            found.setdefault(part.section, []).append(part)
        return found

    def frequent(self, parts: Iterable[SectionReport]) -> dict[str, dict[str, int]]:
        """The most frequent live values of what tuples are joined by: of those most frequent in a bucket."""
        counts: dict[str, Counter[str]] = {}
        for part in parts:
            for text, own in part.top.items():
                counts.setdefault(text, Counter()).update(own)
        return {text: dict(own.most_common(self.top)) for text, own in counts.items()}

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "watermark_us": self.watermark,
            "has_copies_of_hot_values": self.has_copies_of_hot_values,
            "state": [
                {
                    "of": section.of,
                    "holds": section.holds.value,
                    "window": None if section.window is None else section.window.pretty(),
                    **sums(parts),
                    "top": self.frequent(parts),
                    "buckets": [{"bucket": part.bucket, **sums([part])} for part in parts],
                }
                for section, parts in self.sections().items()
            ],
        }


def report_state(state: CheckpointState, top: int) -> StateReport:
    """Looks at all that a query keeps, and at so many of its most frequent values."""
    parts = tuple(sorted(state.report(top), key=lambda each: each.bucket))
    return StateReport(state.batch, state.watermark, parts, top, state.has_copies_of_hot_values)


def sums(parts: Sequence[SectionReport]) -> dict[str, Any]:
    """Some buckets' parts of a section, together; event times in microseconds."""
    oldest = [part.oldest for part in parts if part.oldest is not None]
    newest = [part.newest for part in parts if part.newest is not None]
    return {
        "live": sum(part.live for part in parts),
        "copies": sum(part.copies for part in parts),
        "kept": sum(part.kept for part in parts),
        "bytes": sum(part.nbytes for part in parts),
        "oldest_us": min(oldest, default=None),
        "newest_us": max(newest, default=None),
    }
