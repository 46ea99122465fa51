"""What outlives drivers: files that appear, the checkpoint, the cluster, the sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.machine.cluster import FaultyCluster
from tests.machine.schedule import Schedule
from tests.machine.sinks import FileSink, KafkaModel, PostgresModel, Sink
from tests.machine.spark_log import SparkLog
from watersmeet.oracle.oracle import MicroBatch
from watersmeet.query import Stream
from watersmeet.testing.script import Row, as_oracle, read_batch
from watersmeet.testing.sources import Arrived, may_be_files, write_files

CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class SourceFile:
    """A file of a stream."""

    stream: str
    name: str
    rows: Sequence[Row]


@dataclass
class World:
    """The durable side of one run of the machine, in the folder of a test."""

    schedule: Schedule
    streams: Sequence[Stream]
    folder: Path
    to_come: list[SourceFile]
    log: SparkLog
    cluster: FaultyCluster
    sinks: Sequence[Sink]
    there: dict[str, SourceFile] = field(default_factory=dict)  # by name
    _paths: dict[str, str] = field(default_factory=dict)  # of Parquet files, once some driver wants them

    @staticmethod
    def of(
        streams: Sequence[Stream],
        batches: Sequence[MicroBatch],
        schedule: Schedule,
        folder: Path,
        workers: int,
    ) -> World:
        """The world as the first driver finds it; the tuples of `batches` are still to come."""
        return World(
            schedule=schedule,
            streams=streams,
            folder=folder,
            to_come=_files(batches, streams, schedule),
            log=SparkLog(schedule, folder / CHECKPOINT / "spark"),
            cluster=FaultyCluster(schedule, workers),
            sinks=[FileSink(schedule), PostgresModel(schedule), KafkaModel(schedule)],
        )

    def let_files_appear(self) -> None:
        """Some files more, or none; sooner or later all are there."""
        for _ in range(min(len(self.to_come), self.schedule.choose([0, 4, 8, 12]))):
            near = self.schedule.random.randrange(min(2, len(self.to_come)))
            file = self.to_come.pop(near)
            self.there[file.name] = file
            self.schedule.note(f"a file appears: {file.name}, {len(file.rows)} tuples")

    def listing(self, stream: str) -> list[str]:
        """The files of a stream's folder that are there now."""
        return [name for name, file in self.there.items() if file.stream == stream]

    def arrived(self, batch: int, *, direct_files: bool, map_tasks: int) -> Arrived:
        """What a batch takes: the files that the log says, and no others."""
        taken = self._taken(batch)
        rows = {stream: [row for file in files for row in file.rows] for stream, files in taken.items()}
        by_name = {stream.name: stream for stream in self.streams}
        files: dict[str, list[str]] = {}
        if direct_files:
            files = {
                stream: [self._path(by_name[stream], file) for file in own if file.rows]
                for stream, own in taken.items()
                if may_be_files(by_name[stream])
            }
        return Arrived(by_name, rows, None, map_tasks, files)

    def micro_batches(self) -> list[MicroBatch]:
        """All batches as the oracle takes them."""
        return [
            as_oracle(self.streams, {name: [r for f in own for r in f.rows] for name, own in taken.items()})
            for taken in (self._taken(batch) for batch in sorted(self.log.offsets))
        ]

    def _taken(self, batch: int) -> dict[str, list[SourceFile]]:
        named = self.log.files_of(batch)
        return {
            stream.name: [self.there[name] for name in named.get(stream.name, ())] for stream in self.streams
        }

    def _path(self, stream: Stream, file: SourceFile) -> str:
        if file.name not in self._paths:
            folder = self.folder / "files" / file.name
            folder.mkdir(parents=True)
            (self._paths[file.name],) = write_files(folder, stream, file.rows, 1)
        return self._paths[file.name]


def _files(batches: Sequence[MicroBatch], streams: Sequence[Stream], schedule: Schedule) -> list[SourceFile]:
    """Tuples as files, in about the order of their time."""
    found = []
    for batch in batches:
        rows: Mapping[str, list[dict[str, Any]]] = read_batch(batch, streams)
        for stream, own in rows.items():
            size = schedule.choose([2, 5, 10, 10])
            for start in range(0, len(own), size):
                found.append(SourceFile(stream, f"{stream}-{len(found):02}", own[start : start + size]))
    return found
