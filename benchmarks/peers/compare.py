"""Our engine beside Flink and Pathway on the same rows: `make bench-peers`.

An engine whose answers differ from DuckDB's gets no ratio. Figures are added to those that `--out` holds
already, so that a long comparison can be run in parts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.peers.data import prepare
from benchmarks.peers.measure import OURS, Figures, measure
from rich.console import Console
from rich.table import Table

from watersmeet.bench.engines import run_duckdb
from watersmeet.bench.workloads import WORKLOADS, Workload

WORKLOAD_NAMES = ("netmon3", "chain4")
ENGINES = (
    "ours",
    "ours-cold",
    "flink",
    "flink-rocksdb",
    "flink-multijoin",
    "pathway-static",
    "pathway-kept",
    "pathway-expiry",
)
TRAPS = ("flink-many-files", "pathway-expiry-apart")  # how one might write it first, with wrong answers
TINY_ROWS = 1_000  # of a stream


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that engines under way are stopped too
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in options.workloads.split(","):
        compare(WORKLOADS[name], options)
        known = [figures for figures in read(options.out) if figures.workload == name]
        Console().print(as_table(known))
    print(f"figures in {options.out}", file=sys.stderr)


def compare(workload: Workload, options: argparse.Namespace) -> None:
    """Writes the inputs, runs the engines one after another, and writes down the figures of each at once."""
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-peers-"))
    try:
        batches = max(2, 2 * round(options.rows * len(workload.keys) / options.batch_rows / 2))
        share = options.rows // batches * len(workload.keys)
        inputs = {kind: folder / kind for kind in ("tiny", "half", "all")}
        for path in inputs.values():
            path.mkdir()
        prepare(workload, inputs["tiny"], batch_rows=TINY_ROWS * len(workload.keys), batches=1)
        prepare(workload, inputs["half"], batch_rows=share, batches=batches // 2)
        rows = prepare(workload, inputs["all"], batch_rows=share, batches=batches)
        truth = run_duckdb(workload, inputs["all"])
        for engine in options.engines.split(","):
            print(f"{workload.name}, {rows:,} rows: {engine}", file=sys.stderr, flush=True)
            cores, limit_s = len(os.sched_getaffinity(0)), options.limit
            figures = measure(workload, engine, inputs, rows, cores=cores, limit_s=limit_s)
            known = add(read(options.out), [judged(figures, truth.answers, truth.digest)])
            options.out.write_text(json.dumps(as_json(known), indent=2) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judged(figures: Figures, answers: int, digest: int) -> Figures:
    """The same figures, with a problem if the answers are not these."""
    if figures.problem or (figures.answers, figures.digest) == (answers, digest):
        return figures
    return replace(figures, problem=f"wrong: {figures.answers:,} answers, of {answers:,}")


def add(known: Sequence[Figures], told: Sequence[Figures]) -> list[Figures]:
    """What is known with what was told now, which takes the place of older figures."""
    by_name = {(figures.workload, figures.engine): figures for figures in (*known, *told)}
    return list(by_name.values())


def speedups(figures: Figures, among: Sequence[Figures]) -> tuple[float, float] | None:
    """How many times our steady and net rows/s are another engine's on the same number of rows."""
    ours = next(
        (f for f in among if (f.workload, f.engine, f.rows) == (figures.workload, "ours", figures.rows)), None
    )
    if ours is None or figures.engine in OURS or ours.problem or figures.problem:
        return None
    return (
        ours.steady_rows_per_s / figures.steady_rows_per_s,
        ours.net_rows_per_s / figures.net_rows_per_s,
    )


def as_json(known: Sequence[Figures]) -> dict[str, Any]:
    """Every figure, the rates made of them, and our speed over each other engine's."""
    records = []
    for figures in known:
        ratios = speedups(figures, known)
        records.append(
            {
                **asdict(figures),
                "steady_rows_per_s": round(figures.steady_rows_per_s),
                "net_rows_per_s": round(figures.net_rows_per_s),
                "ours_over_it": dict(zip(("steady", "net"), ratios, strict=True)) if ratios else None,
            }
        )
    return {"cores": len(os.sched_getaffinity(0)), "figures": records}


def as_table(known: Sequence[Figures]) -> Table:
    """One workload, an engine a row."""
    table = Table(title=f"{known[0].workload}, {known[0].rows:,} rows", title_justify="left")
    table.add_column("engine")
    for column in (
        "steady rows/s",
        "net rows/s",
        "start-up s",
        "peak MB",
        "answers",
        "ours is",
        "ours is, net",
    ):
        table.add_column(column, justify="right")
    for figures in known:
        table.add_row(*_cells(figures, known))
    return table


def _cells(figures: Figures, known: Sequence[Figures]) -> list[str]:
    if figures.problem:
        return [figures.engine, figures.problem]
    ratios = speedups(figures, known)
    return [
        figures.engine,
        f"{figures.steady_rows_per_s:,.0f}",
        f"{figures.net_rows_per_s:,.0f}",
        f"{figures.startup_s:.1f}",
        f"{figures.peak_bytes / 1e6:,.0f}",
        f"{figures.answers:,}",
        *(f"{ratio:.1f}x as fast" for ratio in ratios or ()),
    ]


def read(path: Path) -> list[Figures]:
    """The figures of earlier runs."""
    if not path.exists():
        return []
    derived = {"steady_rows_per_s", "net_rows_per_s", "ours_over_it"}
    records = json.loads(path.read_text())["figures"]
    return [
        Figures(**{key: value for key, value in record.items() if key not in derived}) for record in records
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-peers", description="Our engine beside Flink and Pathway.")
    parser.add_argument("--workloads", default=",".join(WORKLOAD_NAMES), help="separated by commas")
    parser.add_argument(
        "--engines", default=",".join(ENGINES), help=f"separated by commas; also {', '.join(TRAPS)}"
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each stream")
    parser.add_argument(
        "--batch-rows", type=int, default=500_000, help="of a micro-batch of ours, all streams"
    )
    parser.add_argument("--limit", type=float, default=180.0, help="seconds after which a run is stopped")
    parser.add_argument("--out", type=Path, default=Path("out/peers.json"), help="where the figures go")
    return parser


if __name__ == "__main__":
    main()
