"""Spark's report on a micro-batch, with our observed metrics in it, as the few numbers a person follows.

Names are data: whatever `input_<alias>`, `late_<alias>`, `shed_<alias>` and `max_ts_<stream>` the observed
metrics hold become rows here. Nothing of Spark is needed: a report is the dictionary in its JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from watersmeet.query import BEGINNING

OBSERVATION = "watersmeet"
VALUES_OBSERVATION = "watersmeet_values"  # of the stage of DISTINCT
MALFORMED_OBSERVATION = "malformed_"  # and the name of the stream, whose source reports it


@dataclass(frozen=True)
class InputProgress:
    """One input of the query in one micro-batch."""

    alias: str
    rows: int
    rows_per_s: float
    late: int
    null_times: int
    max_ts_us: int | None  # of its stream, so far
    ahead_us: int | None  # how far its stream is before the watermark
    malformed: int = 0  # messages of its stream that could not be read
    shed: int = 0  # tuples removed because the state was at its limit
    kept: int = 0  # tuples in the state, copies included
    kept_bytes: int = 0  # of their payload
    since: tuple[int, int] | None = None  # newest event time at the first report, and tuples since then

    @property
    def event_rows_per_s(self) -> float | None:
        """Tuples a second of event time, which a backlog read in a hurry does not change."""
        if self.since is None or self.max_ts_us is None or self.max_ts_us <= self.since[0]:
            return None
        return self.since[1] * 1e6 / (self.max_ts_us - self.since[0])


@dataclass(frozen=True)
class Progress:
    """A micro-batch, and the totals of this run up to it."""

    batch_id: int
    timestamp: str
    batch_ms: int
    inputs: tuple[InputProgress, ...] = ()
    watermark_us: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    memory_bytes: int = 0
    answers: int = 0
    answers_per_s: float = 0.0
    kernel_ms: float = 0.0
    total_rows: int = 0
    total_late: int = 0
    total_answers: int = 0
    total_batches: int = 0
    malformed: int = 0
    total_malformed: int = 0
    arrived_bytes: int = 0
    total_shed: int = 0
    completeness: float = 1.0  # of the answers of this batch, or of the last that had any, as estimated
    total_completeness: float = 1.0
    total_combinations: int = 0  # what the join found, of which answers are made
    total_missed: float = 0.0  # what it did not find for want of tuples shed, as estimated
    total_left_out: int = 0  # values of DISTINCT that were not let out, for want of room to remember them
    state_limit: int | None = None
    notice: str = ""  # what was done, or is to be known, about the memory
    hot_values: int = 0  # in the routing table, cooling ones too
    busiest_share: float = 1.0  # the busiest bucket's work over the mean bucket's

    @property
    def shed(self) -> int:
        return sum(item.shed for item in self.inputs)

    @property
    def rows(self) -> int:
        return sum(item.rows for item in self.inputs)

    @property
    def rows_per_s(self) -> float:
        return sum(item.rows_per_s for item in self.inputs)

    @property
    def late(self) -> int:
        return sum(item.late for item in self.inputs)

    def as_json(self) -> dict[str, Any]:
        """Every field as plain JSON, with the sums over inputs."""
        inputs = [{**asdict(item), "event_rows_per_s": item.event_rows_per_s} for item in self.inputs]
        sums = {"rows": self.rows, "rows_per_s": self.rows_per_s, "late": self.late, "shed": self.shed}
        return {**asdict(self), "inputs": inputs, **sums}


def parse_progress(
    report: Mapping[str, Any], streams: Mapping[str, str] | None = None, previous: Progress | None = None
) -> Progress:
    """A report as `Progress`.

    `streams` names the stream of each alias, where they differ. `previous` is the report before: rates are
    taken over the time since it, totals go on from it, and what an idle batch does not tell stays as it was.
    """
    if previous is not None and report["batchId"] == previous.batch_id and not report.get("numInputRows"):
        return previous
    metrics = observed_metrics(report)
    batch_ms = int(report.get("durationMs", {}).get("triggerExecution", report.get("batchDuration", 0)))
    seconds = max(_seconds_between(previous, report["timestamp"]), batch_ms / 1000, 0.001)
    watermark = _time(metrics.get("watermark_us"), previous.watermark_us if previous else None)
    malformed = _malformed(report)
    inputs = tuple(
        _input(alias, (streams or {}).get(alias, alias), metrics, seconds, watermark, previous, malformed)
        for alias in _aliases(metrics, previous)
    )
    answers = metrics.get("answers", 0)
    found, missed = metrics.get("combinations", 0), metrics.get("missed_milli", 0) / 1000
    total_found = (previous.total_combinations if previous else 0) + found
    total_missed = (previous.total_missed if previous else 0.0) + missed
    return Progress(
        batch_id=int(report["batchId"]),
        timestamp=str(report["timestamp"]),
        batch_ms=batch_ms,
        inputs=inputs,
        watermark_us=watermark,
        state_rows=metrics.get("state_rows", previous.state_rows if previous else 0),
        state_bytes=metrics.get("state_bytes", previous.state_bytes if previous else 0),
        memory_bytes=metrics.get("memory_bytes", previous.memory_bytes if previous else 0),
        answers=answers,
        answers_per_s=answers / seconds,
        kernel_ms=metrics.get("kernel_us", 0) / 1000,
        total_rows=(previous.total_rows if previous else 0) + sum(item.rows for item in inputs),
        total_late=(previous.total_late if previous else 0) + sum(item.late for item in inputs),
        total_answers=(previous.total_answers if previous else 0) + answers,
        total_batches=(previous.total_batches if previous else 0) + 1,
        malformed=sum(malformed.values()),
        total_malformed=(previous.total_malformed if previous else 0) + sum(malformed.values()),
        arrived_bytes=metrics.get("arrived_bytes", 0),
        total_shed=(previous.total_shed if previous else 0) + sum(item.shed for item in inputs),
        completeness=_share(found, missed, previous.completeness if previous else 1.0),
        total_completeness=_share(total_found, total_missed, 1.0),
        total_combinations=total_found,
        total_missed=total_missed,
        total_left_out=(previous.total_left_out if previous else 0) + _left_out(report),
        hot_values=metrics.get("hot_values", previous.hot_values if previous else 0),
        busiest_share=_busiest_share(metrics),
    )


def _share(found: float, missed: float, otherwise: float) -> float:
    return found / (found + missed) if found + missed else otherwise


def _busiest_share(metrics: Mapping[str, int]) -> float:
    work = metrics.get("work", 0)
    return metrics["busiest_work"] * metrics["buckets"] / work if work else 1.0


def _left_out(report: Mapping[str, Any]) -> int:
    return int(_observed(report, VALUES_OBSERVATION).get("left_out") or 0)


def observed_metrics(report: Mapping[str, Any]) -> dict[str, int]:
    """What a batch's stages told, by name; empty for a batch that none ran in."""
    told = _observed(report, OBSERVATION).get("metrics") or {}
    return {name: int(value) for name, value in told.items()}


def _observed(report: Mapping[str, Any], name: str) -> dict[str, Any]:
    observed = (report.get("observedMetrics") or {}).get(name) or {}
    return observed.asDict() if hasattr(observed, "asDict") else dict(observed)


def _malformed(report: Mapping[str, Any]) -> dict[str, int]:
    """How many messages of each stream could not be read."""
    found = {}
    for name in report.get("observedMetrics") or {}:
        if name.startswith(MALFORMED_OBSERVATION):
            count = _observed(report, name).get("malformed") or 0
            found[name.removeprefix(MALFORMED_OBSERVATION)] = int(count)
    return found


def _aliases(metrics: Mapping[str, int], previous: Progress | None) -> list[str]:
    found = [name.removeprefix("input_") for name in metrics if name.startswith("input_")]
    return found or [item.alias for item in (previous.inputs if previous else ())]


def _input(
    alias: str,
    stream: str,
    metrics: Mapping[str, int],
    seconds: float,
    watermark: int | None,
    previous: Progress | None,
    malformed: Mapping[str, int],
) -> InputProgress:
    rows = metrics.get(f"input_{alias}", 0)
    before = next((item for item in (previous.inputs if previous else ()) if item.alias == alias), None)
    newest = _time(metrics.get(f"max_ts_{stream}"), before.max_ts_us if before else None)
    if before and before.max_ts_us is not None and newest is not None:
        newest = max(newest, before.max_ts_us)
    return InputProgress(
        alias=alias,
        rows=rows,
        rows_per_s=rows / seconds,
        late=metrics.get(f"late_{alias}", 0),
        null_times=metrics.get(f"null_times_{alias}", 0),
        max_ts_us=newest,
        ahead_us=None if newest is None or watermark is None else newest - watermark,
        malformed=malformed.get(stream, 0),
        shed=metrics.get(f"shed_{alias}", 0),
        kept=metrics.get(f"kept_{alias}", before.kept if before else 0),
        kept_bytes=metrics.get(f"bytes_kept_{alias}", before.kept_bytes if before else 0),
        since=_since(before, newest, rows),
    )


def _since(before: InputProgress | None, newest: int | None, rows: int) -> tuple[int, int] | None:
    if before is not None and before.since is not None:
        return before.since[0], before.since[1] + rows
    return None if newest is None else (newest, 0)


def _time(value: int | None, otherwise: int | None) -> int | None:
    return otherwise if value is None or value <= BEGINNING else value


def _seconds_between(previous: Progress | None, timestamp: str) -> float:
    if previous is None:
        return 0.0
    return (datetime.fromisoformat(timestamp) - datetime.fromisoformat(previous.timestamp)).total_seconds()
