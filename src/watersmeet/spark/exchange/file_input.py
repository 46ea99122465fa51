"""Inputs whose files are read here: Spark names files, a reader opens them, a pack makes messages of them.

Either packing tasks read the files (`PackFiles`), or, where there are few buckets, only the names go through
the shuffle and each bucket reads all files and keeps what is its own (`FileInput.messages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.spark.exchange.collect import NOW, NOW_SQL
from watersmeet.spark.exchange.file_reader import FileReader, NamedFile
from watersmeet.spark.exchange.messages import UNKNOWN, FileName, Message
from watersmeet.spark.exchange.pack import Pack

PATH, INPUT = "path", "input"


@dataclass(frozen=True)
class FileInput:
    """How the files of an input are read by its buckets, and what becomes of their rows."""

    pack: Pack
    reader: FileReader

    def messages(self, bucket: int, names: Sequence[FileName]) -> Iterator[Message]:
        """What a bucket would have been sent, had packing tasks read these files."""
        files = [NamedFile(name.path, None if name.now_us == UNKNOWN else name.now_us) for name in names]
        for sent in self.pack.messages(self.reader.read(files), only=bucket):
            yield from sent
            del sent  # not beside the next ones


def open_named(
    inputs: Mapping[int, FileInput], bucket: int, messages: Iterable[Message]
) -> Iterator[Message]:
    """Messages as they came, and in place of those that name files what these hold for a bucket."""
    named: dict[int, list[FileName]] = {}
    for message in messages:
        if isinstance(message, FileName):
            named.setdefault(message.input, []).append(message)
        else:
            yield message
    for number, names in sorted(named.items()):
        in_order = sorted(names, key=lambda name: (name.path, name.now_us))
        yield from inputs[number].messages(bucket, in_order)


class Packs(Protocol):
    """What makes rows of the shuffle from the rows of an input."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class PackFiles:
    """Packs the files named by rows of (input, path); called by `mapInArrow`."""

    inputs: Mapping[int, tuple[Packs, FileReader]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named: dict[int, list[NamedFile]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                named.setdefault(row[INPUT], []).append(NamedFile(row[PATH], row.get(NOW)))
        for number, files in named.items():
            pack, reader = self.inputs[number]
            yield from pack(reader.read(files))


def number_files(named: Iterable[tuple[int, DataFrame]], partitions: int, *, reports_time: bool) -> DataFrame:
    """Rows of (input, path) for `PackFiles`, with the batch's time where that is asked for, in few tasks."""
    frames = [names.withColumn(INPUT, F.lit(number)) for number, names in named]
    if reports_time:
        frames = [names.withColumn(NOW, F.expr(NOW_SQL)) for names in frames]
    return reduce(DataFrame.unionAll, frames).coalesce(partitions)
