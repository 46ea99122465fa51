"""What Spark's driver keeps in a checkpoint, in the order it writes it: source logs, offsets, commits.

    files of a source log      which files each offset of a source brings; written when files are first seen
    offsets/N                  how far batch N goes in each source; written before it is run
    commits/N                  batch N is done: its state, and its sinks; written last

A driver that starts finds the newest offsets. If their commit is there it goes on with the next batch,
otherwise it does that batch again, with the offsets that are logged and whatever setting it has now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.machine.schedule import Schedule
from tests.machine.state import Commit, Partition

Offsets = Mapping[str, int]  # by source, how many entries of its log are taken


@dataclass
class SparkLog:
    """The logs of one checkpoint."""

    schedule: Schedule
    folder: Path  # where a checkpoint can be seen to have begun a batch, and to have ended it
    sources: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)  # entries: names of files
    offsets: dict[int, Offsets] = field(default_factory=dict)
    commits: dict[int, Mapping[Partition, Commit]] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        return max(self.offsets, default=-1)

    @property
    def committed(self) -> int:
        return max(self.commits, default=-1)

    def take_files(self, source: str, there: Sequence[str], most: int) -> None:
        """Enters files that were not seen before into a source's log."""
        log = self.sources.setdefault(source, [])
        seen = {name for entry in log for name in entry}
        fresh = [name for name in there if name not in seen][:most]
        if fresh:
            with self.schedule.durable(f"source log of {source}: {len(fresh)} files"):
                log.append(tuple(fresh))

    def write_offsets(self, batch: int) -> None:
        """Logs how far a new batch goes: as far as its sources' logs."""
        assert batch not in self.offsets
        with self.schedule.durable(f"offsets/{batch}"):
            self.offsets[batch] = {source: len(log) for source, log in self.sources.items()}
            (self.folder / "offsets").mkdir(parents=True, exist_ok=True)
            (self.folder / "offsets" / f"{batch}").touch()

    @property
    def has_more(self) -> bool:
        """Whether some source's log goes further than the newest offsets."""
        taken = self.offsets.get(self.newest, {})
        return any(len(log) > taken.get(source, 0) for source, log in self.sources.items())

    def files_of(self, batch: int) -> dict[str, list[str]]:
        """The files that a batch takes, by source."""
        before, after = self.offsets.get(batch - 1, {}), self.offsets[batch]
        return {
            source: [name for entry in self.sources[source][before.get(source, 0) : end] for name in entry]
            for source, end in after.items()
        }

    def commit(self, batch: int, reported: Mapping[Partition, Commit]) -> None:
        """The batch is done, its state is what these tasks reported."""
        with self.schedule.durable(f"commits/{batch}"):
            self.commits[batch] = {**self.commits.get(batch - 1, {}), **reported}
            (self.folder / "commits").mkdir(parents=True, exist_ok=True)
            (self.folder / "commits" / f"{batch}").touch()
