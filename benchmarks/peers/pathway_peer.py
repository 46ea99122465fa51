"""Pathway on one job, in its own environment: `python -m benchmarks.peers.pathway_peer VARIANT JOB RESULT`.

Pathway reads no Parquet files, so it gets the same rows as CSV. With `mode="static"` it takes them all in one
step; then nothing can expire. In streaming mode a step is a file, and the streams come as one table by event
time: each side of an interval join forgets by its own clock alone, so streams read apart may lose answers.

A streaming run does not end by itself. The last row of each stream is a mark that joins with nothing but the
other marks; when its answer is out the run is over, and it lasted until the last write to the answers' file.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pathway as pw
from benchmarks.peers.job import Job, Source, Step

SECOND_US = 1_000_000
SLACK_US = SECOND_US  # a row that is just as old as the cutoff must not be lost, nor one older by a step
IN_STEP_US = SECOND_US
AUTOCOMMIT_MS = 10
SETTLED_S = 1.0
MARK = -1


@dataclass(frozen=True)
class Variant:
    """How the rows come in, and whether old rows are forgotten."""

    streaming: bool
    expiry: bool = False
    apart: bool = False  # a source for each stream, in place of one for all


VARIANTS = {
    "pathway-static": Variant(streaming=False, apart=True),
    "pathway-kept": Variant(streaming=True),
    "pathway-expiry": Variant(streaming=True, expiry=True),
    "pathway-expiry-apart": Variant(streaming=True, expiry=True, apart=True),
}


def run(variant: Variant, job: Job) -> dict[str, object]:
    """Runs the job to its end; seconds are from handing over the graph to the last answer."""
    tables = _apart(variant, job) if variant.apart else _together(variant, job)
    answers = _answers(job, _joined(variant, job, tables))
    job.out.mkdir(parents=True)
    target = job.out / "answers.csv"
    pw.io.csv.write(answers, target)
    if not variant.streaming:
        start = time.perf_counter()
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        return {"seconds": time.perf_counter() - start}
    marked = threading.Event()
    pw.io.subscribe(
        answers.filter(pw.this[f"size_{job.sources[0].alias}"] == MARK), on_change=lambda **_: marked.set()
    )
    began = time.time()
    threading.Thread(target=pw.run, kwargs={"monitoring_level": pw.MonitoringLevel.NONE}, daemon=True).start()
    marked.wait()
    while time.time() - target.stat().st_mtime < SETTLED_S:
        time.sleep(SETTLED_S / 10)
    return {"seconds": target.stat().st_mtime - began}


def _together(variant: Variant, job: Job) -> dict[str, pw.Table]:
    """One source with the rows of all streams in the order of event time, one table for each stream."""
    width = max(len(source.keys) for source in job.sources)
    columns = ["stream", *(f"k{number}" for number in range(width)), "size", "ts"]
    rows = _read(variant, job.folder / "together", columns)
    return {
        source.alias: rows.filter(pw.this.stream == number).select(
            **{key: pw.this[f"k{place}"] for place, key in enumerate(source.keys)},
            size=pw.this.size,
            ts=pw.this.ts,
        )
        for number, source in enumerate(job.sources)
    }


def _apart(variant: Variant, job: Job) -> dict[str, pw.Table]:
    """A source for each stream; in streaming mode kept in step by Pathway's own means."""
    tables = {
        source.alias: _read(variant, job.folder / "apart" / source.name, [*source.keys, "size", "ts"])
        for source in job.sources
    }
    if variant.streaming:
        pw.io.register_input_synchronization_group(
            *(table.ts for table in tables.values()), max_difference=IN_STEP_US
        )
    return tables


def _read(variant: Variant, folder: Path, columns: list[str]) -> pw.Table:
    schema = pw.schema_from_types(**dict.fromkeys(columns, int))
    mode = "streaming" if variant.streaming else "static"
    return pw.io.csv.read(folder, schema=schema, mode=mode, autocommit_duration_ms=AUTOCOMMIT_MS)


def _joined(variant: Variant, job: Job, tables: Mapping[str, pw.Table]) -> pw.Table:
    """Nested interval joins; the columns of the result are those of all streams, after their alias."""
    oldest = job.window_us + job.step_us + SLACK_US
    cutoff = pw.temporal.common_behavior(cutoff=oldest) if variant.expiry else None
    first = job.sources[0]
    result = tables[first.alias].select(**_columns(first, pw.this))
    for step in job.steps:
        result = _join(job, step, result, tables[step.source.alias], {"behavior": cutoff} if cutoff else {})
    return result


def _join(job: Job, step: Step, left: pw.Table, right: pw.Table, behavior: dict[str, Any]) -> pw.Table:
    on = [left[f"{alias}_{column}"] == right[own] for (alias, column), own in step.equalities]
    interval = pw.temporal.interval(-job.window_us, job.window_us)
    pairs = left.interval_join(right, left[f"{step.anchor}_ts"], right.ts, interval, *on, **behavior)
    result = pairs.select(*left, **_columns(step.source, right))
    for other in step.others:
        apart = result[f"{step.source.alias}_ts"] - result[f"{other}_ts"]
        result = result.filter((apart <= job.window_us) & (apart >= -job.window_us))
    return result


def _columns(source: Source, table: Any) -> dict[str, Any]:
    return {f"{source.alias}_{name}": table[name] for name in (*source.keys, "size", "ts")}


def _answers(job: Job, joined: pw.Table) -> pw.Table:
    latest = joined[f"{job.sources[0].alias}_ts"]
    for source in job.sources[1:]:
        own = joined[f"{source.alias}_ts"]
        latest = pw.if_else(latest > own, latest, own)
    sizes = {f"size_{source.alias}": joined[f"{source.alias}_size"] for source in job.sources}
    return joined.select(**sizes, answer_us=latest)


def main() -> None:
    variant, job, result = VARIANTS[sys.argv[1]], Path(sys.argv[2]), Path(sys.argv[3])
    result.write_text(json.dumps(run(variant, Job.from_json(job.read_text()))))
    os._exit(0)  # a streaming run waits for more files for ever


if __name__ == "__main__":
    main()
