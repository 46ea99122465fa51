"""Many queries at once: our shared dataflow, against one streaming query of Spark's own joins for each.

Each runs in a process of its own over the same files. Ours is measured over its steady batches. Spark's
queries are all started together, after one of them has run for a while alone; if they have not come to the
end of the data in the time given, the part they have read counts.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from watersmeet.bench.compare import FIRST_BATCHES, run_child
from watersmeet.bench.engines import ALL_REPORTS, IN_MEMORY, as_batch
from watersmeet.bench.query_sets import QuerySet
from watersmeet.bench.report import write_figures
from watersmeet.errors import WatersmeetError
from watersmeet.plan.multiquery import Registered, plan_dataflow
from watersmeet.session import Session
from watersmeet.spark.compile.cascade import cascade
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.shared_job import SharedJob
from watersmeet.spark.metrics.progress import observed_metrics
from watersmeet.spark.session.environment import PARTITIONS
from watersmeet.spark.sources.read_sources import read_sources
from watersmeet.sql import bind_query, parse_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

COUNTS = (1, 10, 100, 1_000, 10_000)
OURS, SPARK = "ours", "spark"
LEVELS = 2  # enough for chains of four
LIMIT_S = 240  # for Spark's queries together
WARM_UP_S = 30
WARM_UP_QUERIES = 10


@dataclass(frozen=True, kw_only=True)
class QueriesFigures:
    """One way of running so many queries."""

    engine: str
    queries: int
    constants: int  # so many of the queries differ in a constant alone
    rows_per_s: float  # of all streams together
    batch_ms: float
    answers: int
    finished: float  # the part of the data read in the time given
    peak_memory_bytes: int = 0
    state_rows: int = 0
    facts: dict[str, float] = field(default_factory=dict)


def bench_queries(
    *,
    counts: Sequence[int] = COUNTS,
    spark_counts: Sequence[int] = (1, 10, 100),
    batch_rows: int,
    batches: int,
    limit_s: float = LIMIT_S,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[QueriesFigures, ...]:
    """Runs every number of queries both ways, and ours once more with queries that differ in constants."""
    root = Path(tempfile.mkdtemp(prefix="watersmeet-queries-"))
    try:
        report(f"writing {batches} batches of {batch_rows} rows")
        QuerySet(1).write(root / "data", batch_rows=batch_rows, batches=batches)
        figures = []
        for count in counts:
            figures.append(_run(OURS, QuerySet(count), root, limit_s, report))
            if count in spark_counts:
                figures.append(_run(SPARK, QuerySet(count), root, limit_s, report))
                _check_agreement(figures[-2], figures[-1])
        most = max(counts)
        if most >= 100:
            figures.append(_run(OURS, QuerySet(most, constants=100), root, limit_s, report))
        return tuple(figures)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _run(
    engine: str, queries: QuerySet, root: Path, limit_s: float, report: Callable[[str], None]
) -> QueriesFigures:
    report(f"{engine}: {queries.queries} queries")
    folder = root / f"{engine}-{queries.queries}-{queries.constants}"
    folder.mkdir()
    order = {"engine": engine, "set": asdict(queries), "data": str(root / "data"), "limit_s": limit_s}
    (folder / "order.json").write_text(json.dumps(order))
    command = [sys.executable, "-m", "watersmeet.bench.queries", str(folder)]
    peak_bytes = run_child(command, f"{engine} with {queries.queries} queries")
    figures = QueriesFigures(**json.loads((folder / "figures.json").read_text()))
    shutil.rmtree(folder)
    return replace(figures, peak_memory_bytes=peak_bytes)


def _check_agreement(ours: QueriesFigures, theirs: QueriesFigures) -> None:
    if theirs.finished == 1 and ours.answers != theirs.answers:
        raise WatersmeetError(
            f"{ours.queries} queries: answers differ, ours {ours.answers}, Spark's {theirs.answers}"
        )


def run_dataflow(queries: QuerySet, data: Path, folder: Path) -> QueriesFigures:
    """All queries in one shared dataflow, after a few of them have warmed up the process."""
    session = Session(conf=ALL_REPORTS, log=folder / "spark.log")
    deadline, number = time.monotonic() + WARM_UP_S, 0
    while time.monotonic() < deadline:
        few = replace(queries, queries=min(queries.queries, WARM_UP_QUERIES), constants=1)
        _run_dataflow(session, few, data, folder / f"warm-up-{number}", deadline)
        number += 1
    return _run_dataflow(session, queries, data, folder / "run", math.inf)


def _run_dataflow(
    session: Session, queries: QuerySet, data: Path, folder: Path, deadline: float
) -> QueriesFigures:
    spark = session.spark
    pipeline = parse_pipeline(queries.declarations(data, folder / "answers"))
    bound = {name: bind_query(text, pipeline.streams) for name, text in queries.texts().items()}
    registered = [
        Registered(name, number, replace(query, sink="answers"))
        for number, (name, query) in enumerate(bound.items())
    ]
    began = time.perf_counter()
    dataflow = plan_dataflow(registered, pipeline.streams, LEVELS)
    planned = time.perf_counter() - began
    job = SharedJob(
        spark=spark,
        dataflow=dataflow,
        queries={each.number: each.query for each in registered},
        pipeline=pipeline,
        sources=read_sources(spark, pipeline.streams, folder),
        folder=str(folder / "checkpoint"),
        base=folder,
        dataflow_id="bench",
        partitions=int(spark.conf.get(PARTITIONS) or 1),
        options=RunOptions(available_now=True),
    )
    job.start()
    while job.is_running() and time.monotonic() < deadline:
        time.sleep(0.2)
    job.poll()
    job.stop()
    facts = {"plan_s": planned, "joins": len(dataflow.joins), "relations": len(dataflow.relations)}
    return _of_reports(queries, job.reports, facts, _count_answers(folder / "answers"))


def _of_reports(
    queries: QuerySet, reports: Sequence[dict[str, Any]], facts: dict[str, float], answers: int
) -> QueriesFigures:
    batches = [batch for batch in map(as_batch, reports) if batch.rows]
    steady = batches[FIRST_BATCHES:] or batches
    observed = [metrics for metrics in map(observed_metrics, reports) if metrics][-len(steady) :]
    rows, ms = sum(batch.rows for batch in steady), sum(batch.ms for batch in steady)
    for name in ("sent", "sent_by_all", "combinations", "stored", "kernel_us"):
        facts[f"{name}_per_row"] = sum(metrics[name] for metrics in observed) / max(1, rows)
    return QueriesFigures(
        engine=OURS,
        queries=queries.queries,
        constants=queries.constants,
        rows_per_s=1000 * rows / max(1, ms),
        batch_ms=ms / max(1, len(steady)),
        state_rows=max((batch.live_rows for batch in steady), default=0),
        answers=answers,
        finished=1.0,
        facts=facts,
    )


def run_separately(queries: QuerySet, data: Path, folder: Path, limit_s: float) -> QueriesFigures:
    """Spark's own joins, one streaming query for each query, all at once."""
    session = Session(conf={**IN_MEMORY, **ALL_REPORTS}, log=folder / "spark.log")
    schema = ", ".join(f"{column.name} {column.type}" for column in queries.streams[0].columns)
    files = len(list((data / queries.streams[0].name).glob("*.parquet")))

    def start(name: str, text: str, target: Path) -> StreamingQuery:
        query = bind_query(text, queries.streams)
        sources: dict[str, DataFrame] = {}
        for stream in query.streams:
            reader = session.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            sources[stream.name] = reader.parquet(str(data / stream.name))
        writer = cascade(query, sources).writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(target / "checkpoints" / name))
        return writer.start(str(target / "answers" / name))

    texts = queries.texts()
    first = next(iter(texts))
    alone = start(first, texts[first], folder / "warm-up")
    alone.awaitTermination(WARM_UP_S)
    alone.stop()
    began = time.monotonic()
    running = [start(name, text, folder) for name, text in texts.items()]
    while any(query.isActive for query in running) and time.monotonic() < began + limit_s:
        time.sleep(0.2)
    seconds = time.monotonic() - began
    read = [len({r["batchId"] for r in q.recentProgress if r["numInputRows"]}) for q in running]
    finished = sum(min(1.0, batches / files) for batches in read) / len(running)
    for query in running:
        query.stop()
    rows = _count_rows(data)
    answers = sum(_count_answers(folder / "answers" / name) for name in texts)
    ms = 1000 * seconds / max(1, max(read))
    return QueriesFigures(
        engine=SPARK,
        queries=queries.queries,
        constants=queries.constants,
        rows_per_s=finished * rows / seconds,
        batch_ms=ms,
        answers=answers,
        finished=finished,
    )


def _count_rows(data: Path) -> int:
    import duckdb

    return int(duckdb.connect().execute(f"SELECT count(*) FROM '{data}/*/*.parquet'").fetchall()[0][0])


def _count_answers(folder: Path) -> int:
    import duckdb

    if not list(folder.glob("**/*.parquet")):
        return 0
    sql = f"SELECT count(*) FROM read_parquet('{folder}/**/*.parquet', union_by_name = true)"
    return int(duckdb.connect().execute(sql).fetchall()[0][0])


def as_table(figures: Sequence[QueriesFigures]) -> Table:
    """A row for each run."""
    table = Table(title="random queries over ten streams of ten attributes", title_justify="left")
    table.add_column("queries", justify="right")
    table.add_column("engine")
    for column in ("rows/s", "batch ms", "peak memory", "state rows", "sent a row", "answers", "of the data"):
        table.add_column(column, justify="right")
    for each in figures:
        alike = (
            f" ({each.queries // each.constants} x {each.constants} constants)" if each.constants > 1 else ""
        )
        table.add_row(
            f"{each.queries:,}{alike}",
            each.engine,
            f"{each.rows_per_s:,.0f}",
            f"{each.batch_ms:,.0f}",
            f"{each.peak_memory_bytes / 2**30:.1f} GiB",
            f"{each.state_rows:,}" if each.engine == OURS else "",
            f"{each.facts['sent_per_row']:.1f}" if each.facts else "",
            f"{each.answers:,}",
            f"{each.finished:.0%}",
        )
    return table


def write(figures: Sequence[QueriesFigures], folder: Path, *, batch_rows: int, batches: int) -> Path:
    """Writes queries.json."""
    facts = {"batch_rows": batch_rows, "batches": batches}
    return write_figures(folder / "queries.json", facts, figures)


def main() -> None:
    folder = Path(sys.argv[1])
    order = json.loads((folder / "order.json").read_text())
    queries, data = QuerySet(**order["set"]), Path(order["data"])
    if order["engine"] == OURS:
        figures = run_dataflow(queries, data, folder)
    else:
        figures = run_separately(queries, data, folder, order["limit_s"])
    (folder / "figures.json").write_text(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
