"""The log between a query whose answers are a stream, and the queries that read it.

    CHECKPOINT/j/answers/id                      what tells this log from another in the same place
    CHECKPOINT/j/answers/data/17-5d2e/*.parquet  the answers of a try of batch 17
    CHECKPOINT/j/answers/batch-17.json           a record: the batch's files, the batch before, its mark
    CHECKPOINT/j/answers/readers/out.json        how far a reader is done

Creating a record is the commit point: before it nobody reads the files, after it they never change. A try
that another has overtaken finds the record there. The *mark* of a record says that no answer of a later batch
has an earlier answer_time.

A reader follows the records by what each says comes before it. So it takes batches in their order, a mark
never before an answer that is older, whatever order a listing shows files in. The newest record is always
kept, so that a reader that begins later has one to go on from.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from watersmeet.errors import DataError
from watersmeet.spark.storage.tree import LocalTree, draft_beside

NOTHING = -1  # the number before that of the first batch
_RECORD = re.compile(r"batch-(\d+)\.json")


@dataclass(frozen=True, kw_only=True)
class LoggedBatch:
    """A batch of answers: what comes before it, what holds after it, and where it is."""

    number: int
    previous: int
    mark: int
    plan: str  # of which input the batch is made
    folder: str  # of its files, below the log
    files: tuple[str, ...] = ()
    nbytes: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> LoggedBatch:
        fields = json.loads(text)
        return LoggedBatch(**{**fields, "files": tuple(fields["files"])})


@dataclass(frozen=True)
class AnswerLog:
    """A log, on a disk that all who write and read it see."""

    root: Path

    @property
    def tree(self) -> LocalTree:
        """The files of the log."""
        return LocalTree(self.root)

    def open(self) -> str:
        """The log's id; a new one is made where there is no log."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.tree.create("id", secrets.token_hex(8))
        return self.id or ""

    @property
    def id(self) -> str | None:
        return self.tree.read("id")

    def numbers(self) -> list[int]:
        """The numbers of the batches whose records are there, in order."""
        return sorted(int(found[1]) for name in self.tree.names("") if (found := _RECORD.fullmatch(name)))

    def batch(self, number: int) -> LoggedBatch | None:
        """The record of a batch; None if there is none."""
        text = self.tree.read(_record(number))
        try:
            return None if text is None else LoggedBatch.from_json(text)
        except (ValueError, LookupError, TypeError):
            raise DataError(
                f"{self.root}/{_record(number)} is damaged: nobody can tell which answers its batch has. Put "
                "it back from a copy, or start anew with another checkpoint"
            ) from None

    def newest(self) -> LoggedBatch | None:
        """The newest record."""
        numbers = self.numbers()
        return self.batch(numbers[-1]) if numbers else None

    def commit(self, batch: LoggedBatch) -> bool:
        """Publishes a batch whose files are in place; False if another try has done so."""
        self.tree.sync(batch.folder)
        return self.tree.create(_record(batch.number), batch.to_json())

    def remove(self, path: str) -> None:
        """Removes a file or folder of the log."""
        self.tree.remove(path)

    def sizes(self, folder: str) -> Mapping[str, int]:
        """The files of a batch, and their bytes."""
        return {name: self.tree.size(f"{folder}/{name}") for name in self.tree.files(folder)}

    def forget_tries(self, number: int) -> None:
        """Removes what earlier tries of a batch have left that did not commit it."""
        for name in self.tree.names("data"):
            if name.startswith(f"{number}-"):
                self.remove(f"data/{name}")

    def sweep(self, readers: Iterable[str]) -> None:
        """Removes batches that all these readers have done with."""
        done, numbers = min((self.done(reader) for reader in readers), default=NOTHING), self.numbers()
        for number in numbers[:-1]:
            if number <= done:
                self.remove(_record(number))
        kept = [number for number in numbers if number > done or number == numbers[-1]]
        for name in self.tree.names("data"):
            if kept and int(name.partition("-")[0]) < kept[0]:
                self.remove(f"data/{name}")

    def done(self, reader: str) -> int:
        """The newest batch that a reader is done with for good."""
        try:
            return int(json.loads(self.tree.read(f"readers/{reader}.json") or "{}").get("batch", NOTHING))
        except ValueError:
            return NOTHING

    def note_done(self, reader: str, number: int) -> None:
        """Remembers that a reader is done with a batch and all before it."""
        path = self.root / "readers" / f"{reader}.json"
        path.parent.mkdir(exist_ok=True)
        with draft_beside(path) as draft:
            draft.write_text(json.dumps({"batch": number}), encoding="utf-8")
            os.replace(draft, path)

    def start(self) -> int:
        """The batch after which a reader begins that has read nothing."""
        numbers = self.numbers()
        first = self.batch(numbers[0]) if numbers else None
        return NOTHING if first is None else first.previous


def _record(number: int) -> str:
    return f"batch-{number}.json"
