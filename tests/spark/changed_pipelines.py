"""A pipeline over streams of several source kinds that is changed between two runs, and what is due of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.spark.pipelines import BATCH_S, SECOND_US, random_batches
from tests.strategies import to_arrow
from watersmeet.kernel import StateLimit
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Column, Stream
from watersmeet.session import Session
from watersmeet.spark.exchange.hot_keys import SWITCH
from watersmeet.spark.generator import FORMAT
from watersmeet.spark.generator.generator import generate, parse_options
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.sources.parquet.folder_columns import DIRECT
from watersmeet.sql import parse_pipeline

PARTITIONS = "spark.sql.shuffle.partitions"
STREAMS = ("s1", "s2", "s3")
ALIASES = dict(zip(STREAMS, "abc", strict=True))
WINDOWS = {"s1": "RANGE 4 SECONDS", "s2": "RANGE 3 SECONDS", "s3": "TUMBLE 6 SECONDS"}
COLUMNS = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))
ROWS = 40  # of a stream in a batch
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What may change between two runs."""

    lateness_s: int = 2
    idle_after: str = ""
    partitions: int = 2
    statistics: Statistics | None = None
    limit: StateLimit | None = None
    files_per_trigger: int = 1
    direct: bool = True
    hot_keys: bool = True
    folders: str = "{}"  # where files of a stream arrive
    paths: str = "{}"  # where they are read
    compression: str = "snappy"  # of the sink's files
    another: bool = False  # whether a query comes before the one that runs


@dataclass(frozen=True, kw_only=True)
class ChangedPipeline:
    """Streams of these kinds, in this order of FROM; each batch is one arrival of all."""

    spark: SparkSession
    folder: Path
    kinds: Mapping[str, str]
    order: Sequence[str] = STREAMS
    bootstrap: str = ""  # of a Kafka broker
    batches: list[MicroBatch] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "pipeline.sql"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def select(self) -> str:
        inputs = ", ".join(f"{name} [{WINDOWS[name]}] AS {ALIASES[name]}" for name in self.order)
        keep = [f"{ALIASES[name]}.v > 2" for name in STREAMS if self.kinds[name] == "filtered"]
        where = " AND ".join(["a.k = b.k", "b.k = c.k", *keep])
        return f"SELECT a.k, a.v AS va, b.v AS vb, c.v AS vc, answer_time FROM {inputs} WHERE {where}"

    def text(self, settings: Settings) -> str:
        """The pipeline file."""
        lines = [self._declaration(name, settings) for name in STREAMS]
        sinks = ["other", "out"] if settings.another else ["out"]
        lines += [
            f"CREATE SINK {sink} WITH (format = 'parquet', path = '{sink}', "
            f"'option.compression' = '{settings.compression}');"
            for sink in sinks
        ]
        return "\n".join([*lines, *(f"INSERT INTO {sink} {self.select};" for sink in sinks)])

    def run(self, settings: Settings, *, new: int = 1) -> None:
        """Takes `new` more batches with these settings, or what is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in STREAMS:
            (self.folder / settings.folders.format(name)).mkdir(exist_ok=True)
        for _ in range(new):
            self._arrive(settings)
        self.file.write_text(self.text(settings))
        self.start(settings)

    def start(self, settings: Settings) -> None:
        """Runs the file as it is."""
        options = RunOptions(available_now=True, limit=settings.limit)
        with self._session_settings(settings):
            Session(self.spark).run(
                self.file, checkpoint=self.checkpoint, options=options, statistics=settings.statistics
            )

    def check(self, *, sinks: Sequence[str] = ("out",)) -> None:
        """The sinks hold each of the oracle's answers once."""
        query = parse_pipeline(self.text(Settings())).queries[0]
        expected = oracle.bag(oracle.run(query, self.batches).rows)
        assert expected, "a case without answers proves nothing"
        for sink in sinks:
            rows = self.spark.read.parquet(f"file:{self.folder / sink}").collect()
            assert oracle.bag(tuple(row) for row in rows) == expected, sink

    def _declaration(self, name: str, settings: Settings) -> str:
        options = {"event_time": "ts", "lateness": f"{settings.lateness_s} seconds"}
        if settings.idle_after:
            options["idle_after"] = settings.idle_after
        kind, files = self.kinds[name], settings.files_per_trigger
        match kind:
            case "generator":
                options |= {"format": FORMAT, **self._made_up(name)}
                options["rows_per_batch"] = str(files * ROWS)
            case "kafka":
                topic = f"{self.folder.name}-{name}"
                options |= {"format": "kafka", "bootstrap": self.bootstrap, "topic": topic}
                options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(files * ROWS)}
            case _:
                options["format"] = "json" if kind == "json" else "parquet"
                options |= {
                    "path": settings.paths.format(name),
                    "option.maxFilesPerTrigger": str(files),
                }
        written = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        columns = ", ".join(f"{column.name} {column.type}" for column in COLUMNS)
        return f"CREATE STREAM {name} ({columns}) WITH ({written});"

    def _made_up(self, name: str) -> dict[str, str]:
        """As many tuples as have arrived, over the same times as those of the other kinds."""
        rows = ROWS * len(self.batches)
        made = {"stream": name, "keys": "16", "values": "10", "start": "1970-01-01T00:00:00Z"}
        return made | {"rate": str(ROWS // BATCH_S), "rows": str(rows)}

    def _arrive(self, settings: Settings) -> None:
        number = len(self.batches)
        [drawn] = random_batches(seed=number, count=1, rows=ROWS)
        moved = {
            name: [Tuple(each.ts + number * BATCH_S * SECOND_US, each.values) for each in tuples]
            for name, tuples in drawn.items()
        }
        self.batches.append(dict(moved))
        for name in STREAMS:
            if self.kinds[name] == "generator":
                made = parse_options(self._made_up(name), COLUMNS)
                rows = generate(made, number * ROWS, (number + 1) * ROWS)
                times = rows.column("ts").cast(pa.int64()).to_pylist()
                values = rows.select(["k", "v"]).to_pylist()
                moved[name] = [Tuple(ts, each) for ts, each in zip(times, values, strict=True)]
            elif self.kinds[name] == "kafka":
                self._send(name, moved[name])
            else:
                folder = self.folder / settings.folders.format(name)
                _write(folder, number, self.kinds[name], moved[name])
        self.batches[number] = moved

    def _send(self, name: str, tuples: Sequence[Tuple]) -> None:
        frame = self.spark.createDataFrame([(_line(each),) for each in tuples], "value string")
        writer = frame.coalesce(1).write.format("kafka").option("topic", f"{self.folder.name}-{name}")
        writer.option("kafka.bootstrap.servers", self.bootstrap).save()

    @contextmanager
    def _session_settings(self, settings: Settings) -> Iterator[None]:
        before = self.spark.conf.get(PARTITIONS) or ""
        self.spark.conf.set(PARTITIONS, settings.partitions)
        self.spark.conf.set(DIRECT, str(settings.direct).lower())
        self.spark.conf.set(SWITCH, str(settings.hot_keys).lower())
        try:
            yield
        finally:
            self.spark.conf.set(PARTITIONS, before)
            self.spark.conf.unset(DIRECT)
            self.spark.conf.unset(SWITCH)


def _write(folder: Path, number: int, kind: str, tuples: Sequence[Tuple]) -> None:
    """One file, of a time of change that gives the order in which Spark takes it."""
    draft = folder / f"_{number:04}"
    if kind == "json":
        draft.write_text("".join(f"{_line(each)}\n" for each in tuples))
    else:
        pq.write_table(to_arrow(Stream("s", COLUMNS, "ts"), tuples), draft)
    os.utime(draft, (1_000_000 + number, 1_000_000 + number))
    draft.rename(folder / f"{number:04}.{kind}")


def _line(each: Tuple) -> str:
    time = EPOCH + timedelta(microseconds=each.ts)
    return json.dumps({**each.values, "ts": f"{time:%Y-%m-%dT%H:%M:%S.%fZ}"})
