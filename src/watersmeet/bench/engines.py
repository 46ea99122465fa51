"""The engines compared: ours, Spark's own cascade with either state store, and DuckDB on all data at once.

A streaming engine first runs the same query on the same data for a while, into a folder that is thrown away:
a JVM compiles its code for tens of seconds after its start, and would be measured doing that.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watersmeet.bench.workloads import Workload
from watersmeet.session import Session
from watersmeet.spark.compile.cascade import cascade
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.metrics.progress import observed_metrics
from watersmeet.spark.session.environment import (
    PARTITIONS,
    PROVIDER,
    ROCKSDB,
    SETTINGS,
    STATE_COMMITS,
    check_java,
    cores_of,
    plain_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from watersmeet.query import Query

WARM_UP_S = 40
WARM_UP = "warm-up"  # a folder
ALL_REPORTS = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}
IN_MEMORY = {
    PROVIDER: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    STATE_COMMITS: "1",  # it knows no other format of commits
}
IN_ROCKSDB = {PROVIDER: ROCKSDB, STATE_COMMITS: SETTINGS[STATE_COMMITS]}
ONE_A_CORE = {PARTITIONS: str(cores_of("local[*]", {}))}  # suits Spark's joins best


@dataclass(frozen=True)
class Batch:
    """One micro-batch as Spark reported it."""

    rows: int
    ms: int
    state_bytes: int = 0
    live_rows: int = 0


@dataclass(frozen=True)
class Outcome:
    """What one engine did with one workload."""

    engine: str
    batches: tuple[Batch, ...]
    answers: int
    digest: int  # of the bag of answers, the same for equal bags


def run_ours(
    workload: Workload,
    folder: Path,
    warm_up_s: float = WARM_UP_S,
    conf: Mapping[str, str] | None = None,
    name: str = "ours",
) -> Outcome:
    """Our engine, the way people run it: a pipeline file over what is there."""
    session = spark_session(name, folder, IN_ROCKSDB, conf)

    def run(target: Path, seconds: float) -> list[dict[str, Any]]:
        return run_pipeline(session, workload, folder, target, seconds)

    reports = _warmed_up(run, folder, name, warm_up_s)
    session.spark.stop()
    return _outcome(name, reports, folder)


def run_pipeline(
    session: Session,
    workload: Workload,
    data: Path,
    target: Path,
    seconds: float = math.inf,
    routing: str | None = None,
) -> list[dict[str, Any]]:
    """Our engine over the data in a folder, for so long or to their end; Spark's reports of its batches."""
    target.mkdir(parents=True)
    file = target / "pipeline.sql"
    file.write_text(workload.pipeline(data, target / "answers"))
    deadline = time.monotonic() + seconds
    run = session.start(file, options=RunOptions(available_now=True, routing=routing))
    run.follow(until=lambda: time.monotonic() > deadline)
    run.stop()
    return run.jobs[0].reports


def run_cascade(
    workload: Workload, folder: Path, warm_up_s: float = WARM_UP_S, conf: Mapping[str, str] | None = None
) -> Outcome:
    session = spark_session("cascade", folder, IN_MEMORY, {**ONE_A_CORE, **(conf or {})})
    return run_spark("cascade", session.spark, workload, folder, warm_up_s)


def run_cascade_rocksdb(
    workload: Workload, folder: Path, warm_up_s: float = WARM_UP_S, conf: Mapping[str, str] | None = None
) -> Outcome:
    session = spark_session("cascade-rocksdb", folder, IN_ROCKSDB, {**ONE_A_CORE, **(conf or {})})
    return run_spark("cascade-rocksdb", session.spark, workload, folder, warm_up_s)


def run_cascade_untuned(
    workload: Workload, folder: Path, warm_up_s: float = WARM_UP_S, conf: Mapping[str, str] | None = None
) -> Outcome:
    """The cascade in a session as Spark makes it, but with a partition a core and our memory."""
    from pyspark.sql import SparkSession

    check_java()
    builder = SparkSession.builder.master("local[*]")
    settings = {**ALL_REPORTS, **plain_settings("local[*]"), **ONE_A_CORE, **(conf or {})}
    for key, value in settings.items():
        builder = builder.config(key, value)
    return run_spark("cascade-untuned", builder.getOrCreate(), workload, folder, warm_up_s)


def run_duckdb(
    workload: Workload, folder: Path, _: float = 0, conf: Mapping[str, str] | None = None
) -> Outcome:
    """The floor: the same answers over all files at once, by a batch engine on the same cores."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    start = time.perf_counter()
    target = folder / "duckdb.parquet"
    connection.execute(f"COPY ({_duckdb_sql(workload, folder)}) TO '{target}' (FORMAT parquet)")
    ms = int(1000 * (time.perf_counter() - start))
    sources = " UNION ALL ".join(f"SELECT ts FROM '{folder}/{s.name}/*.parquet'" for s in workload.streams)
    rows = connection.execute(f"SELECT count(*) FROM ({sources})").fetchall()[0][0]
    answers, digest = digest_answers(folder, str(target))
    return Outcome("duckdb", (Batch(rows, ms),), answers, digest)


ENGINES: Mapping[str, Callable[[Workload, Path, float, Mapping[str, str] | None], Outcome]] = {
    "ours": run_ours,
    "cascade": run_cascade,
    "cascade-rocksdb": run_cascade_rocksdb,
    "cascade-untuned": run_cascade_untuned,
    "duckdb": run_duckdb,
}


def spark_session(
    engine: str, folder: Path, state: Mapping[str, str], conf: Mapping[str, str] | None = None
) -> Session:
    """A session of ours with a state store of this kind, its log in the folder."""
    settings = {**state, **ALL_REPORTS, **(conf or {})}
    return Session(conf=settings, log=folder / f"{engine}.log")


def run_spark(
    engine: str,
    spark: SparkSession,
    workload: Workload,
    folder: Path,
    warm_up_s: float,
    build: Callable[[Query, Mapping[str, DataFrame]], DataFrame] = cascade,
) -> Outcome:
    """A query of Spark's own, by default its joins, over the same files a batch and into the same sink."""
    sources: dict[str, DataFrame] = {}
    for stream in workload.streams:
        schema = ", ".join(f"{column.name} {column.type}" for column in stream.columns)
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        sources[stream.name] = reader.parquet(str(folder / stream.name))

    def run(target: Path, seconds: float) -> list[dict[str, Any]]:
        writer = build(workload.query, sources).writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(target / "checkpoint"))
        query = writer.start(str(target / "answers"))
        query.awaitTermination(None if math.isinf(seconds) else math.ceil(seconds))
        reports = [json.loads(report.json) for report in query.recentProgress]
        query.stop()
        return reports

    reports = _warmed_up(run, folder, engine, warm_up_s)
    spark.stop()
    return _outcome(engine, reports, folder)


def _warmed_up(
    run: Callable[[Path, float], list[dict[str, Any]]], folder: Path, engine: str, warm_up_s: float
) -> list[dict[str, Any]]:
    """Runs the query again and again until the engine is warm, then once to be measured."""
    deadline = time.monotonic() + warm_up_s
    for number in itertools.count():
        left = deadline - time.monotonic()
        if left <= 0:
            break
        run(folder / WARM_UP / engine / str(number), left)
    return run(folder / engine, math.inf)


def _outcome(engine: str, reports: Sequence[dict[str, Any]], folder: Path) -> Outcome:
    answers, digest = digest_answers(folder, f"{folder}/{engine}/answers/*.parquet")
    batches = (as_batch(report) for report in reports)
    return Outcome(engine, tuple(batch for batch in batches if batch.rows), answers, digest)


def as_batch(report: dict[str, Any]) -> Batch:
    """A report of Spark's; state bytes are ours where we report them, else the state store's memory."""
    metrics = observed_metrics(report)
    counted = [value for name, value in metrics.items() if name.startswith("input_")]
    rows = sum(counted) if counted else int(report["numInputRows"])
    operators = report.get("stateOperators") or []
    state = metrics.get("memory_bytes") or sum(int(op.get("memoryUsedBytes", 0)) for op in operators)
    live = metrics.get("state_rows") or sum(int(op.get("numRowsTotal", 0)) for op in operators)
    return Batch(rows, int(report["durationMs"]["triggerExecution"]), int(state), int(live))


def _duckdb_sql(workload: Workload, folder: Path) -> str:
    """The workload's query with its windows written out as conditions."""
    froms = ", ".join(
        f"(SELECT *, epoch_us(ts) AS us FROM '{folder}/{stream.name}/*.parquet') AS {alias}"
        for stream, alias in zip(workload.streams, workload.aliases, strict=True)
    )
    span = workload.window_s * 1_000_000
    conditions = [f"{left} = {right}" for left, right in workload.equalities]
    conditions += [
        f"{a}.us - {b}.us BETWEEN -{span} AND {span}"
        for n, a in enumerate(workload.aliases)
        for b in workload.aliases[:n]
    ]
    columns = ["size", *(["note"] if workload.payload_bytes else [])]
    select = ", ".join(f"{alias}.{name} AS {name}_{alias}" for alias in workload.aliases for name in columns)
    latest = ", ".join(f"{alias}.ts" for alias in workload.aliases)
    return f"SELECT {select}, greatest({latest}) AS answer_time FROM {froms} WHERE {' AND '.join(conditions)}"


def digest_answers(folder: Path, files: str) -> tuple[int, int]:
    """How many answers, and a sum of their hashes: equal bags give equal sums, in any order."""
    import duckdb

    if "*" in files and not list(folder.glob(str(Path(files).relative_to(folder)))):
        return 0, 0
    sql = f"SELECT count(*), coalesce(sum(hash(answer)::HUGEINT), 0) FROM read_parquet('{files}') AS answer"
    count, digest = duckdb.connect().execute(sql).fetchall()[0]
    return int(count), int(digest)
