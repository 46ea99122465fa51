"""What an as-of join costs: the last tuple of each of a million keys, beside windows of time.

A stream of orders meets a stream of rates. Once the rates are under `[PARTITION BY k ROWS 1]`, once under a
RANGE in which as many tuples are live as there are keys. Runs alternate, so that neither has the warmer JVM
to itself. The answers of the two differ, as the queries do; those of one query may not.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from watersmeet.bench.compare import FIRST_BATCHES
from watersmeet.bench.engines import ALL_REPORTS, as_batch, digest_answers, run_pipeline
from watersmeet.bench.report import write_figures
from watersmeet.bench.workloads import Workload
from watersmeet.errors import WatersmeetError
from watersmeet.session import Session

ROUNDS = 3
KEYS = 1_000_000
RATES_PER_S = 1_000  # of event time, of each stream
ORDERS = "[RANGE 10 SECONDS]"
AS_OF, RANGE = "as of", "range"
BASE = Workload(
    name="asof",
    about="orders with the rate of their time",
    keys=(("k",), ("k",)),
    equalities=(("a.k", "b.k"),),
    domain=KEYS,
    rows_per_s=RATES_PER_S,
)


@dataclass(frozen=True, kw_only=True)
class AsOfFigures:
    """Steady batches of one of the two queries; medians over the rounds."""

    query: str
    rows_per_s: float
    live_rows: int
    state_bytes: int
    answers: int


@dataclass(frozen=True)
class _Run:
    rows_per_s: float
    live_rows: int
    state_bytes: int
    answers: tuple[int, int]


def workloads(keys: int = KEYS) -> dict[str, Workload]:
    """The two queries over the same tuples."""
    seconds = max(1, keys // RATES_PER_S)
    windows = {AS_OF: "[PARTITION BY k ROWS 1]", RANGE: f"[RANGE {seconds} SECONDS]"}
    return {name: replace(BASE, domain=keys, windows=(ORDERS, window)) for name, window in windows.items()}


def bench_as_of(
    *,
    keys: int = KEYS,
    batch_rows: int,
    batches: int,
    warm_up_s: float,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[AsOfFigures, ...]:
    """Runs both queries in turn."""
    root = Path(tempfile.mkdtemp(prefix="watersmeet-asof-"))
    session = Session(conf=ALL_REPORTS, log=root / "spark.log")
    both = workloads(keys)
    try:
        report(f"{keys:,} keys: writing {batches} batches of {batch_rows} rows")
        both[AS_OF].write(root / "data", batch_rows=batch_rows, batches=batches)
        deadline, number = time.monotonic() + warm_up_s, 0
        while time.monotonic() < deadline:
            _run(session, both[(AS_OF, RANGE)[number % 2]], root, f"warm-up-{number}")
            number += 1
        runs: dict[str, list[_Run]] = {name: [] for name in both}
        for each in range(ROUNDS):
            for name, workload in both.items():
                report(f"round {each + 1}: {name}")
                runs[name].append(_run(session, workload, root, f"run-{len(runs[name])}"))
        return tuple(_summary(name, own) for name, own in runs.items())
    finally:
        session.spark.stop()
        shutil.rmtree(root, ignore_errors=True)


def _run(session: Session, workload: Workload, root: Path, name: str) -> _Run:
    target = root / name
    reports = [
        each for each in run_pipeline(session, workload, root / "data", target) if each["numInputRows"]
    ]
    answers = digest_answers(target, f"{target}/answers/*.parquet")
    shutil.rmtree(target)
    steady = [as_batch(each) for each in reports[FIRST_BATCHES:] or reports]
    rows, ms = sum(batch.rows for batch in steady), sum(batch.ms for batch in steady)
    live = max((batch.live_rows for batch in steady), default=0)
    state = max((batch.state_bytes for batch in steady), default=0)
    return _Run(1000 * rows / max(1, ms), live, state, answers)


def _summary(name: str, runs: Sequence[_Run]) -> AsOfFigures:
    if len({run.answers for run in runs}) > 1:
        raise WatersmeetError(f"{name}: the answers of its runs differ")
    return AsOfFigures(
        query=name,
        rows_per_s=statistics.median(run.rows_per_s for run in runs),
        live_rows=max(run.live_rows for run in runs),
        state_bytes=max(run.state_bytes for run in runs),
        answers=runs[0].answers[0],
    )


def share_of_range(figures: Sequence[AsOfFigures]) -> float:
    """Rows a second of the as-of join over those of the windows of time."""
    speed: Mapping[str, float] = {each.query: each.rows_per_s for each in figures}
    return speed[AS_OF] / max(1e-9, speed[RANGE])


def as_table(figures: Sequence[AsOfFigures]) -> Table:
    """A row for each query."""
    title = f"as of is {share_of_range(figures):.2f}x as fast as windows of time"
    table = Table(title=title, title_justify="left")
    table.add_column("rates under")
    for column in ("rows/s", "live rows", "state MB", "answers"):
        table.add_column(column, justify="right")
    for each in figures:
        table.add_row(
            each.query,
            f"{each.rows_per_s:,.0f}",
            f"{each.live_rows:,}",
            f"{each.state_bytes / 1e6:,.1f}",
            f"{each.answers:,}",
        )
    return table


def write(figures: Sequence[AsOfFigures], folder: Path, *, batch_rows: int, batches: int, keys: int) -> Path:
    """Writes asof.json."""
    facts = {"keys": keys, "batch_rows": batch_rows, "batches": batches, "share": share_of_range(figures)}
    return write_figures(folder / "asof.json", facts, figures)
