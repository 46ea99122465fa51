"""The ways of routing a query side by side: the same streams, joined once each way, in one session.

Four shapes of query. Bytes are those that Spark itself says its tasks wrote to its shuffles, as its event log
has them, the same for every way. Live rows and their memory are taken from a run that is not timed: for
Spark's own joins it has the state store in memory, which alone reports its size. All ways give the same
answers, or it is an error.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from watersmeet.bench.compare import FIRST_BATCHES
from watersmeet.bench.engines import (
    ALL_REPORTS,
    IN_MEMORY,
    IN_ROCKSDB,
    as_batch,
    digest_answers,
    run_pipeline,
)
from watersmeet.bench.report import write_figures
from watersmeet.bench.workloads import NETMON3, WORKLOADS, Workload
from watersmeet.errors import WatersmeetError
from watersmeet.plan.routing.routing import ROUTINGS
from watersmeet.session import Session
from watersmeet.spark.session.environment import PARTITIONS

BUCKETS = 4
ROUNDS = 2
NATIVE = "native"
STAR4 = Workload(
    name="star4",
    about="a centre with a different attribute for each of three others",
    keys=(("x", "y", "z"), ("x",), ("y",), ("z",)),
    equalities=(("a.x", "b.x"), ("a.y", "c.y"), ("a.z", "d.z")),
    domain=30_000,
)
SHAPES = {"type 1": NETMON3, "chain": WORKLOADS["chain4"], "star": STAR4, "cycle": WORKLOADS["cycle3"]}

Batches = Counter[tuple[str, int]]  # by the streaming query's id and the batch


@dataclass(frozen=True, kw_only=True)
class RoutingFigures:
    """Steady batches of one shape routed one way; medians over the rounds."""

    shape: str
    routing: str
    shuffled_bytes_per_row: float
    state_rows: int
    state_bytes: int  # in memory, with what finds them
    rows_per_s: float
    answers: int


@dataclass(frozen=True)
class _Run:
    """One run: Spark's reports of its steady batches, and its answers."""

    shape: str
    routing: str
    reports: Sequence[dict[str, Any]]
    answers: tuple[int, int]
    is_timed: bool


def bench_routings(
    *,
    routings: Sequence[str] = ROUTINGS,
    batch_rows: int,
    batches: int,
    warm_up_s: float,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[RoutingFigures, ...]:
    """Runs every shape every way."""
    root = Path(tempfile.mkdtemp(prefix="watersmeet-routings-"))
    events = root / "events"
    events.mkdir()
    session = Session(conf=_settings(events), log=root / "spark.log")
    try:
        runs: list[_Run] = []
        for shape, workload in SHAPES.items():
            report(f"{shape}: writing {batches} batches of {batch_rows} rows")
            workload.write(root / "data", batch_rows=batch_rows, batches=batches)
            bench = _Bench(session, shape, workload, root, report)
            if not runs:
                bench.warm_up(routings, warm_up_s)
            runs += bench.runs(routings)
            shutil.rmtree(root / "data")
        session.spark.stop()  # only then is the event log whole
        shuffled = shuffled_bytes(line for file in sorted(events.iterdir()) for line in file.open())
        return tuple(
            summary([run for run in runs if (run.shape, run.routing) == (shape, routing)], shuffled)
            for shape in SHAPES
            for routing in routings
        )
    finally:
        session.spark.stop()
        shutil.rmtree(root, ignore_errors=True)


def _settings(events: Path) -> dict[str, str]:
    return {
        PARTITIONS: str(BUCKETS),
        **ALL_REPORTS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(events),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


@dataclass(frozen=True)
class _Bench:
    """One shape, its data written."""

    session: Session
    shape: str
    workload: Workload
    root: Path
    report: Callable[[str], None]

    def warm_up(self, routings: Sequence[str], seconds: float) -> None:
        deadline, number = time.monotonic() + seconds, 0
        while time.monotonic() < deadline:
            self._run(routings[number % len(routings)], is_timed=True)
            number += 1

    def runs(self, routings: Sequence[str]) -> list[_Run]:
        """First without timing, then round after round, each way in turn."""
        done = []
        for each in range(ROUNDS + 1):
            for routing in routings:
                self.report(f"{self.shape}: {routing}, {f'round {each}' if each else 'counting its state'}")
                done.append(self._run(routing, is_timed=each > 0))
        check_agreement(self.shape, {run.routing: run.answers for run in done})
        return done

    def _run(self, routing: str, *, is_timed: bool) -> _Run:
        target = self.root / "run"
        self._keep_state(IN_MEMORY if routing == NATIVE and not is_timed else IN_ROCKSDB)
        try:
            all_reports = run_pipeline(
                self.session, self.workload, self.root / "data", target, routing=routing
            )
            answers = digest_answers(target, f"{target}/answers/*.parquet")
        finally:
            self._keep_state(IN_ROCKSDB)
            shutil.rmtree(target)
        reports = [report for report in all_reports if as_batch(report).rows]
        return _Run(self.shape, routing, reports[FIRST_BATCHES:] or reports, answers, is_timed)

    def _keep_state(self, settings: Mapping[str, str]) -> None:
        for key, value in settings.items():
            self.session.spark.conf.set(key, value)


def check_agreement(shape: str, answers: dict[str, tuple[int, int]]) -> None:
    """Ways that give different answers are not compared."""
    if len(set(answers.values())) > 1:
        counts = ", ".join(f"{routing} {count}" for routing, (count, _) in answers.items())
        raise WatersmeetError(f"{shape}: the answers differ by routing ({counts})")


def shuffled_bytes(events: Iterable[str]) -> Batches:
    """What the tasks of each batch wrote to Spark's shuffles, given the lines of an event log."""
    batches: dict[int, tuple[str, int]] = {}  # by stage
    found: Batches = Counter()
    for line in events:
        if '"SparkListenerStageSubmitted"' in line:
            event = json.loads(line)
            properties = event.get("Properties") or {}
            if "streaming.sql.batchId" in properties:
                batch = properties["sql.streaming.queryId"], int(properties["streaming.sql.batchId"])
                batches[event["Stage Info"]["Stage ID"]] = batch
        elif '"SparkListenerTaskEnd"' in line:
            event = json.loads(line)
            written = (event.get("Task Metrics") or {}).get("Shuffle Write Metrics") or {}
            if event["Stage ID"] in batches:
                found[batches[event["Stage ID"]]] += int(written.get("Shuffle Bytes Written", 0))
    return found


def summary(runs: Sequence[_Run], shuffled: Batches) -> RoutingFigures:
    """The runs of one shape and way as figures."""
    timed = [run for run in runs if run.is_timed]
    states = [state_of(report) for run in runs if not run.is_timed for report in run.reports]
    return RoutingFigures(
        shape=runs[0].shape,
        routing=runs[0].routing,
        shuffled_bytes_per_row=statistics.median(_shuffled_per_row(run, shuffled) for run in timed),
        state_rows=max(rows for rows, _ in states),
        state_bytes=max(nbytes for _, nbytes in states),
        rows_per_s=statistics.median(_rows_per_s(run) for run in timed),
        answers=runs[0].answers[0],
    )


def state_of(report: dict[str, Any]) -> tuple[int, int]:
    """Live rows and their memory: as our stages report it, or else Spark's state store in memory."""
    batch = as_batch(report)
    stores = [operator.get("customMetrics") or {} for operator in report.get("stateOperators") or []]
    in_memory = sum(int(metrics.get("stateOnCurrentVersionSizeBytes", 0)) for metrics in stores)
    return batch.live_rows, in_memory or batch.state_bytes


def _shuffled_per_row(run: _Run, shuffled: Batches) -> float:
    rows = sum(as_batch(report).rows for report in run.reports)
    nbytes = sum(shuffled[report["id"], report["batchId"]] for report in run.reports)
    return nbytes / max(1, rows)


def _rows_per_s(run: _Run) -> float:
    steady = [as_batch(report) for report in run.reports]
    return 1000 * sum(batch.rows for batch in steady) / max(1, sum(batch.ms for batch in steady))


def as_table(figures: Sequence[RoutingFigures]) -> Table:
    """A row for each shape and way."""
    table = Table(title=f"ways of routing a query, {BUCKETS} buckets", title_justify="left")
    for column in ("query", "routing"):
        table.add_column(column)
    for column in ("shuffled B/row", "state rows", "state MB", "rows/s", "answers"):
        table.add_column(column, justify="right")
    for each in figures:
        table.add_row(
            each.shape,
            each.routing,
            f"{each.shuffled_bytes_per_row:,.1f}",
            f"{each.state_rows:,}",
            f"{each.state_bytes / 1e6:,.1f}",
            f"{each.rows_per_s:,.0f}",
            f"{each.answers:,}",
        )
    return table


def write(figures: Sequence[RoutingFigures], folder: Path, *, batch_rows: int, batches: int) -> Path:
    """Writes routings.json."""
    facts = {"buckets": BUCKETS, "batch_rows": batch_rows, "batches": batches}
    return write_figures(folder / "routings.json", facts, figures)
