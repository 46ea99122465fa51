"""Lets a query begin where another streaming query is: with what that one takes after one of its batches.

A new checkpoint is given a batch 0 of which no tuple is taken. It ends where the other query's batch has
ended, by the offsets in Spark's log, whatever the sources are. So batch 1 begins there: every tuple is in a
batch of the other query up to that one, or in a batch of the new query, and never in both.

    the other query, offsets/41:   kafka {"t":{"0":1200}}    files {"logOffset":17}   of 18 batches of files
    the new query,   offsets/0:    kafka {"t":{"0":1200}}    files {"logOffset":0}    which holds no file
                     sources/1/0:  the names of all files of those 18 batches, as seen

A source of files counts its batches for itself, and remembers the files it has seen. These become entries
that belong to no batch, so that they are seen and not read. Kafka is told that it begins where batch 0 ends.
Any other source reads what is in batch 0, once, and the tuples are thrown away.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watersmeet.errors import DataError
from watersmeet.query import Stream
from watersmeet.spark.storage.folder import Folder

NOTHING = "-"  # the offset of a source that has given nothing yet
NO_BATCH = 10**15  # Spark wants a number from 0 on, and never comes to this one
_FILES = "logOffset"


@dataclass(frozen=True)
class TakenSoFar:
    """Where a streaming query is after a batch: the log's two first lines, and the offset of each stream."""

    head: tuple[str, str]
    offsets: Mapping[str, str]
    sources: Mapping[str, int]  # by stream the number of its source


def read_taken(checkpoint: Folder, batch: int, streams: Sequence[str]) -> TakenSoFar:
    """Where the query of a checkpoint is after a batch; `streams` are its sources, in order."""
    text = checkpoint.read(f"spark/offsets/{batch}")
    lines = (text or "").splitlines()
    if len(lines) != len(streams) + 2:
        raise DataError(
            f"Spark's log of batch {batch} in {checkpoint.path} is gone or not whole, and it says where the "
            "query begins. Submit the query again, with --replace"
        )
    offsets = dict(zip(streams, lines[2:], strict=True))
    numbers = {stream: number for number, stream in enumerate(streams)}
    return TakenSoFar((lines[0], lines[1]), offsets, numbers)


def begin_at(new: Folder, old: Folder, taken: TakenSoFar, sources: Sequence[Stream | None]) -> None:
    """Gives a new checkpoint its batch 0; `sources` are the streams that its query reads, in Spark's order.

    None is a source of another kind, which has given nothing. What a crash has cut short is done again: the
    log of batch 0 comes last.
    """
    lines = [*taken.head]
    distinct = [*dict.fromkeys(stream and stream.name for stream in sources)]
    for stream in sources:
        offset = NOTHING if stream is None else taken.offsets[stream.name]
        if stream is not None and stream.source is not None and offset != NOTHING:
            own, fields = f"spark/sources/{distinct.index(stream.name)}/0", json.loads(offset)
            if stream.source.format.lower() == "kafka":
                new.write(own, f"\0v1\n{offset}")  # the zero stands there for the sake of Spark 2.1
            elif isinstance(fields, dict) and fields.keys() == {_FILES}:
                seen = _seen_files(old, taken.sources[stream.name], fields[_FILES])
                new.write(own, "\n".join(["v1", *seen]))
                offset = json.dumps({_FILES: 0}, separators=(",", ":"))
        lines.append(offset)
    if new.read("spark/metadata") is None:
        new.write("spark/metadata", json.dumps({"id": str(uuid.uuid4())}))
    new.write("spark/offsets/0", "\n".join(lines))


def _seen_files(checkpoint: Folder, source: int, last: int) -> list[str]:
    """The files that a source has seen up to a batch of its own, as entries of no batch.

    Spark puts the entries of every so many batches together, into N.compact, and removes the others later.
    """
    folder = f"spark/sources/{source}"
    names = checkpoint.names(f"{folder}/*")
    compact = sorted(int(name.removesuffix(".compact")) for name in names if name.endswith(".compact"))
    later = [number for number in compact if number >= last]
    if later:
        read = [f"{later[0]}.compact"]
    else:
        start = compact[-1] if compact else -1
        read = [*([f"{start}.compact"] if compact else []), *map(str, range(start + 1, last + 1))]
    found = []
    for name in read:
        text = checkpoint.read(f"{folder}/{name}")
        if text is None:
            raise DataError(
                f"{folder}/{name} in {checkpoint.path} is gone, and it says which files were read. Put it "
                "back from a copy"
            )
        entries = map(json.loads, filter(None, text.splitlines()[1:]))
        found += [{**entry, "batchId": NO_BATCH} for entry in entries if entry["batchId"] <= last]
    return [json.dumps(entry, separators=(",", ":")) for entry in found]
