"""How the answers of a batch become files that readers see: each answer once, whatever crashes.

The sink's folder holds the published files alone, beside one hidden folder for each writer:

    out/paid-9f3c01ab-17-0.snappy.parquet                a file of batch 17: whole, and never changed
    out/_watersmeet/9f3c01ab/staging-17-5d2e/part-…      a batch that is being written
    out/_watersmeet/9f3c01ab/batch-17-0                  the record of a batch: its queries, its files

A try of a batch takes these steps; a crash may come between any two, and the batch is then tried again:

1. `begin` lists the writer's folder and finishes the publication that a record promises, if a crash has cut
   it short. It says for which queries the batch is still due, and gives the try a staging folder of its own.
2. Spark writes the answers of those queries into that folder, and of no others. If none is due, or there is
   no answer, nothing more happens (`discard`).
3. `commit` creates the batch's record. **This is the commit point**: before it nobody sees any file, after it
   every file gets published, by this try or by the next.
4. The files are renamed into the sink's folder one by one, and the staging folder is removed. A record whose
   staging folder is gone is therefore published.

Guarantees, with `queries` as the set whose answers go to this sink together:

- An answer of a batch is published once, although the batch is tried again with another set of queries: a
  record names the queries it holds answers of, and these are not due again. Later records of the same batch
  number their files on.
- A try that another has overtaken (a driver believed dead, or a second run on one checkpoint) publishes
  nothing: `Tree.create` lets one of them have the record, and the other fails. Its staging folder is removed
  only after the record is there, so it cannot commit what is left of it. If the record is gone because later
  batches have been committed, it finds theirs and withdraws.
- Only records of the newest batch count. A batch before it is refused: its checkpoint has been put back. So
  is a batch of the same number that Spark has planned anew, since it may take other tuples than the first.

    writer = FileWriter(name="paid", id="9f3c01ab")
    attempt = begin(tree, writer, batch=17, queries=frozenset({"paid"}), token="5d2e")
    ...write files below attempt.staging, if attempt.due...
    commit(tree, writer, attempt)
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.errors import DataError
from watersmeet.spark.storage.tree import Tree

HIDDEN = "_watersmeet"  # readers of data pass over names that begin with an underscore
_RECORD = re.compile(r"batch-(\d+)-(\d+)")
_STAGING = "staging-"


@dataclass(frozen=True)
class FileWriter:
    """Who writes: `id` lasts as long as the checkpoint; `part` tells sinks of one dataflow apart."""

    name: str
    id: str
    part: str = ""

    @property
    def log(self) -> str:
        """The hidden folder of this writer."""
        return f"{HIDDEN}/{self.id}{'-' if self.part else ''}{_plain(self.part)}"

    def file(self, batch: int, number: int, staged: str) -> str:
        """Where a staged file is published; folders of partitions and the ending are kept.

        >>> FileWriter("paid", "9f3c01ab").file(17, 0, "day=1/part-00000-77f1-c000.snappy.parquet")
        'day=1/paid-9f3c01ab-17-0.snappy.parquet'
        """
        folder, slash, name = staged.rpartition("/")
        ending = name.partition(".")[2]
        stem = f"{_plain(self.name) or 'answers'}-{self.id}-{batch}-{number}"
        return f"{folder}{slash}{stem}{'.' if ending else ''}{ending}"


@dataclass(frozen=True)
class Attempt:
    """One try of a batch."""

    batch: int
    due: frozenset[str]  # the queries whose answers are to be written
    staging: str  # the folder to write them into
    number: int  # of its record, among those of the batch
    first_file: int  # the number of its first file
    plan: str = ""  # what tells it apart from another batch of this number


@dataclass(frozen=True)
class Record:
    """A committed part of a batch: `files` are (staged, published) paths."""

    batch: int
    number: int
    queries: frozenset[str]
    staging: str
    files: tuple[tuple[str, str], ...]
    plan: str

    def as_json(self) -> str:
        fields = {"queries": sorted(self.queries), "staging": self.staging, "files": self.files}
        return json.dumps({**fields, "plan": self.plan})


def begin(
    tree: Tree, writer: FileWriter, *, batch: int, queries: frozenset[str], token: str, plan: str = ""
) -> Attempt:
    """Completes what earlier tries have committed, and says what is left; no `token` is used twice.

    `plan` is the same for all tries of a batch, and another for a batch that was planned anew; "" is unknown.
    """
    names = tree.names(writer.log)
    newest = _newest(names)
    if newest > batch:
        raise refuse_put_back(batch, f"{writer.log} holds batch {newest}")
    records = [_read(tree, writer, name) for name in _records(names, newest)]
    if newest == batch and any(plan and record.plan not in ("", plan) for record in records):
        raise refuse_put_back(batch, f"{writer.log} holds another batch {batch}")
    for record in records:
        if _name(record.staging) in names:
            _publish(tree, record)
    done = records if newest == batch else []
    return Attempt(
        batch=batch,
        due=queries.difference(*(record.queries for record in done)),
        staging=f"{writer.log}/{_STAGING}{batch}-{token}",
        number=len(done),
        first_file=sum(len(record.files) for record in done),
        plan=plan,
    )


def commit(tree: Tree, writer: FileWriter, attempt: Attempt) -> None:
    """Publishes the files that a try has staged; on return all of them are in place."""
    tree.sync(attempt.staging)  # the record promises these files, so they come to the disk before it
    record = _record(writer, attempt, tree.files(attempt.staging))
    path = f"{writer.log}/batch-{attempt.batch}-{attempt.number}"
    if not tree.create(path, record.as_json()):
        raise _overtaken(attempt)
    names = tree.names(writer.log)
    if _newest(names) > attempt.batch:
        tree.remove(path)
        raise _overtaken(attempt)
    _publish(tree, record)
    kept = {*_records(names, attempt.batch), _name(attempt.staging)}
    for name in names:
        if name not in kept:
            tree.remove(f"{writer.log}/{name}")


def last_batch(tree: Tree, writer: FileWriter) -> int:
    """The newest batch of a writer that is committed; -1 if there is none."""
    return _newest(tree.names(writer.log))


def discard(tree: Tree, attempt: Attempt) -> None:
    """Ends a try that has no answers to publish."""
    tree.remove(attempt.staging)


def _publish(tree: Tree, record: Record) -> None:
    """Renames the files of a record, those that are not renamed yet."""
    for staged, published in record.files:
        tree.move(f"{record.staging}/{staged}", published)
    tree.remove(record.staging)


def _record(writer: FileWriter, attempt: Attempt, staged: Sequence[str]) -> Record:
    numbered = enumerate(staged, attempt.first_file)
    files = tuple((name, writer.file(attempt.batch, number, name)) for number, name in numbered)
    return Record(attempt.batch, attempt.number, attempt.due, attempt.staging, files, attempt.plan)


def _read(tree: Tree, writer: FileWriter, name: str) -> Record:
    found = _RECORD.fullmatch(name)
    text = tree.read(f"{writer.log}/{name}")
    assert found is not None
    try:
        fields = json.loads(text or "")
        files = tuple((staged, published) for staged, published in fields["files"])
        queries = frozenset(fields["queries"])
        plan = fields.get("plan", "")
        return Record(int(found[1]), int(found[2]), queries, fields["staging"], files, plan)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            f"{writer.log}/{name} is damaged: nobody can tell which answers of its batch are published. "
            "Put it back from a copy, or start with another checkpoint and another folder"
        ) from None


def _records(names: Sequence[str], batch: int) -> list[str]:
    """The names of a batch's records, in their order."""
    found = {int(m[2]): m[0] for name in names if (m := _RECORD.fullmatch(name)) and int(m[1]) == batch}
    return [found[number] for number in sorted(found)]


def _newest(names: Sequence[str]) -> int:
    return max((int(m[1]) for name in names if (m := _RECORD.fullmatch(name))), default=-1)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def refuse_put_back(batch: int, held: str) -> DataError:
    """The refusal of a batch whose number a sink has seen already, with what it `held`."""
    return DataError(
        f"batch {batch} is to be written, but {held} of the same checkpoint, as if an older copy of the "
        "checkpoint had been put back. Start with another checkpoint, or put the newer one back"
    )


def _overtaken(attempt: Attempt) -> DataError:
    return DataError(
        f"batch {attempt.batch} has been written by another run of the same checkpoint meanwhile: nothing is "
        "published twice. Let one run use a checkpoint at a time, then resume"
    )


def _plain(name: str) -> str:
    """A name as part of a file's: readers pass over names that begin with a dot or an underscore."""
    return re.sub(r"[^\w.-]+", "-", name).lstrip("._-")
