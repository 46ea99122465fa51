"""What spreading hot values brings: the same skewed streams with it and without it, in one session.

Three streams on one key, drawn from a Zipf distribution. A bucket's work is the tuples it takes in, copies
too, and the answers it gives. Runs alternate, so that neither has the warmer JVM to itself; both give the
same answers, or it is an error.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from watersmeet.bench.compare import FIRST_BATCHES
from watersmeet.bench.engines import ALL_REPORTS, as_batch, digest_answers, run_pipeline
from watersmeet.bench.report import write_figures
from watersmeet.bench.workloads import NETMON3, Workload
from watersmeet.errors import WatersmeetError
from watersmeet.session import Session
from watersmeet.spark.exchange.hot_keys import SWITCH
from watersmeet.spark.metrics.progress import observed_metrics
from watersmeet.spark.session.environment import PARTITIONS

BUCKETS = 4
SKEWS = (0.0, 1.2)
ROUNDS = 2
# Twenty live tuples a stream: the hottest value of Zipf 1.2 then makes most of the answers, four a tuple.
BASE = replace(NETMON3, name="skew", domain=10_000, window_s=1, rows_per_s=20)


@dataclass(frozen=True, kw_only=True)
class SkewFigures:
    """Steady batches of one skew, with hot values spread or not; medians over the rounds."""

    skew: float
    hot_keys: bool
    rows_per_s: float
    busiest_share: float  # the busiest bucket's work over the mean bucket's
    work_per_row: float  # of all buckets
    hot_values: int
    answers: int


@dataclass(frozen=True)
class _Run:
    rows_per_s: float
    busiest_share: float
    work_per_row: float
    hot_values: int
    answers: tuple[int, int]


def bench_skew(
    *,
    skews: Sequence[float] = SKEWS,
    batch_rows: int,
    batches: int,
    warm_up_s: float,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[SkewFigures, ...]:
    """Runs every skew without and with hot values spread."""
    root = Path(tempfile.mkdtemp(prefix="watersmeet-skew-"))
    settings = {PARTITIONS: str(BUCKETS), **ALL_REPORTS}
    session = Session(conf=settings, log=root / "spark.log")
    try:
        figures: list[SkewFigures] = []
        for skew in skews:
            folder = root / f"{skew:g}"
            workload = replace(BASE, skew=skew)
            report(f"Zipf {skew:g}: writing {batches} batches of {batch_rows} rows")
            workload.write(folder / "data", batch_rows=batch_rows, batches=batches)
            figures += _measure(session, workload, folder, warm_up_s if skew == skews[0] else 0, report)
            shutil.rmtree(folder)
        return tuple(figures)
    finally:
        session.spark.stop()
        shutil.rmtree(root, ignore_errors=True)


def _measure(
    session: Session, workload: Workload, folder: Path, warm_up_s: float, report: Callable[[str], None]
) -> list[SkewFigures]:
    deadline, number = time.monotonic() + warm_up_s, 0
    while time.monotonic() < deadline:
        _run(session, workload, folder, f"warm-up-{number}", hot_keys=number % 2 == 1)
        number += 1
    runs: dict[bool, list[_Run]] = {False: [], True: []}
    for each in range(ROUNDS):
        for hot_keys in runs:
            report(f"Zipf {workload.skew:g}: round {each + 1}, hot keys {'on' if hot_keys else 'off'}")
            runs[hot_keys].append(_run(session, workload, folder, f"{hot_keys}-{each}", hot_keys=hot_keys))
    if len({run.answers for both in runs.values() for run in both}) > 1:
        raise WatersmeetError(f"Zipf {workload.skew:g}: answers differ with hot keys spread")
    return [_summary(workload.skew, hot_keys, both) for hot_keys, both in runs.items()]


def _run(session: Session, workload: Workload, folder: Path, name: str, *, hot_keys: bool) -> _Run:
    target = folder / name
    session.spark.conf.set(SWITCH, str(hot_keys).lower())
    all_reports = run_pipeline(session, workload, folder / "data", target)
    reports = [report for report in all_reports if report["numInputRows"]]
    answers = digest_answers(target, f"{target}/answers/*.parquet")
    shutil.rmtree(target)
    return _figures(reports[FIRST_BATCHES:] or reports, answers)


def _figures(reports: Sequence[dict[str, Any]], answers: tuple[int, int]) -> _Run:
    observed = [observed_metrics(report) for report in reports]
    steady = [as_batch(report) for report in reports]
    rows, ms = sum(batch.rows for batch in steady), sum(batch.ms for batch in steady)
    work = sum(metrics["work"] for metrics in observed)
    busiest = sum(metrics["busiest_work"] * metrics["buckets"] for metrics in observed)
    hot = max(metrics["hot_values"] for metrics in observed)
    return _Run(1000 * rows / max(1, ms), busiest / max(1, work), work / max(1, rows), hot, answers)


def _summary(skew: float, hot_keys: bool, runs: Sequence[_Run]) -> SkewFigures:
    return SkewFigures(
        skew=skew,
        hot_keys=hot_keys,
        rows_per_s=statistics.median(run.rows_per_s for run in runs),
        busiest_share=statistics.median(run.busiest_share for run in runs),
        work_per_row=statistics.median(run.work_per_row for run in runs),
        hot_values=max(run.hot_values for run in runs),
        answers=runs[0].answers[0],
    )


def as_table(figures: Sequence[SkewFigures]) -> Table:
    """A row for each skew, with and without."""
    table = Table(title=f"three streams on one key, {BUCKETS} buckets", title_justify="left")
    for column in ("Zipf", "hot keys"):
        table.add_column(column)
    for column in ("rows/s", "busiest / mean", "work a row", "hot values", "answers"):
        table.add_column(column, justify="right")
    for each in figures:
        table.add_row(
            f"{each.skew:g}",
            "on" if each.hot_keys else "off",
            f"{each.rows_per_s:,.0f}",
            f"{each.busiest_share:.2f}",
            f"{each.work_per_row:.2f}",
            str(each.hot_values),
            f"{each.answers:,}",
        )
    return table


def write(figures: Sequence[SkewFigures], folder: Path, *, batch_rows: int, batches: int) -> Path:
    """Writes skew.json."""
    facts = {"buckets": BUCKETS, "batch_rows": batch_rows, "batches": batches}
    return write_figures(folder / "skew.json", facts, figures)
