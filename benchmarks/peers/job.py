"""What a peer is asked to do: the streams of a workload, and the join as a sequence of binary steps.

Neither peer takes a windowed join of three streams as written, so both get the same left-deep tree. Each step
joins one more stream by its equalities and by an interval around one that is there already, the anchor; the
window must hold against all the others too, which is a condition on the result.

    a.k = b.k and b.k = c.k:   b joins on a.k = b.k around a
                               c joins on b.k = c.k around b, and must lie near a
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """A stream: its name, the alias it has in the query, its key columns."""

    name: str
    alias: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One more stream joined to those before it; columns are pairs of alias and name."""

    source: Source
    equalities: tuple[tuple[tuple[str, str], str], ...]  # a column of an earlier stream, a column of this one
    anchor: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """A workload for a peer, with its files in `folder` and its answers to go to `out`."""

    workload: str
    sources: tuple[Source, ...]
    equalities: tuple[tuple[str, str], ...]
    window_us: int
    step_us: int  # the event time that one step spans, where the rows come in steps
    folder: Path
    out: Path
    cores: int

    @property
    def steps(self) -> tuple[Step, ...]:
        """The left-deep tree over the streams in their order; every stream after the first is a step."""
        return tuple(self._step(number) for number in range(1, len(self.sources)))

    def _step(self, number: int) -> Step:
        source = self.sources[number]
        before = [earlier.alias for earlier in self.sources[:number]]
        pairs = [(left.split("."), right.split(".")) for left, right in self.equalities]
        pairs += [(right, left) for left, right in pairs]
        found = tuple(
            ((left[0], left[1]), right[1])
            for left, right in pairs
            if right[0] == source.alias and left[0] in before
        )
        if not found:
            raise ValueError(f"{self.workload}: {source.alias} has no equality with {', '.join(before)}")
        anchor = found[0][0][0]
        return Step(source, found, anchor, tuple(alias for alias in before if alias != anchor))

    def as_json(self) -> str:
        return json.dumps({**asdict(self), "folder": str(self.folder), "out": str(self.out)})

    @classmethod
    def from_json(cls, text: str) -> Job:
        record = json.loads(text)
        record["sources"] = tuple(
            Source(source["name"], source["alias"], tuple(source["keys"])) for source in record["sources"]
        )
        record["equalities"] = tuple((left, right) for left, right in record["equalities"])
        record["folder"], record["out"] = Path(record["folder"]), Path(record["out"])
        return cls(**record)
