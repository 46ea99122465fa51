"""Spark's report on a micro-batch, with our observed metrics in it, as the few numbers a person follows.

Names are data: whatever `input_<alias>`, `late_<alias>`, `shed_<alias>` and `max_ts_<stream>` the observed
metrics hold become rows here. Nothing of Spark is needed: a report is the dictionary in its JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from watersmeet.query import BEGINNING
from watersmeet.spark.metrics.site_progress import SiteProgress

OBSERVATION = "watersmeet"
VALUES_OBSERVATION = "watersmeet_values"  # of the stage of DISTINCT
ANSWERS_OBSERVATION = "watersmeet_answers"  # of the rows that are written
MALFORMED_OBSERVATION = "malformed_"  # and the name of the stream, whose source reports it


@dataclass(frozen=True, kw_only=True)
class InputProgress:
    """One input of the query in one micro-batch."""

    alias: str
    rows: int
    rows_per_s: float
    late: int
    null_times: int
    max_ts_us: int | None  # of its stream, so far
    ahead_us: int | None  # how far its stream is ahead of the watermark
    ahead: int = 0  # tuples left out because their event time was too far ahead of the batch's time
    malformed: int = 0  # messages of its stream that could not be read
    shed: int = 0  # tuples removed because the state was at its limit
    kept: int = 0  # tuples in the state, copies included
    kept_bytes: int = 0  # of their payload
    read: int = 0  # rows of its source, as far as they are counted
    passed: int = 0  # of these, how many meet the local filters
    keyless: int = 0  # of these, how many can join nothing as some attribute of theirs is NULL
    null_keys: tuple[tuple[int, int], ...] = ()  # which attributes, by number in the join, of how many
    since: tuple[int, int] | None = None  # newest event time at the first report, and tuples since then

    @property
    def event_rows_per_s(self) -> float | None:
        """Tuples a second of event time, which a backlog read in a hurry does not change."""
        if self.since is None or self.max_ts_us is None or self.max_ts_us <= self.since[0]:
            return None
        return self.since[1] * 1e6 / (self.max_ts_us - self.since[0])


@dataclass(frozen=True)
class Totals:
    """Sums over the batches of a run."""

    rows: int = 0
    late: int = 0
    ahead: int = 0
    answers: int = 0
    batches: int = 0
    malformed: int = 0
    shed: int = 0
    combinations: int = 0  # found by the join, which makes answers of them
    missed: float = 0.0  # combinations not found because their tuples were shed, as estimated
    left_out: int = 0  # values of DISTINCT left out because there was no room to remember them

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def completeness(self) -> float:
        """The share of answers given so far, as estimated."""
        return _share(self, otherwise=1.0)


@dataclass(frozen=True, kw_only=True)
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
    malformed: int = 0
    arrived_bytes: int = 0
    completeness: float = 1.0  # of the answers of this batch, or of the last that had any, as estimated
    state_limit: int | None = None
    notice: str = ""  # what has been done, or should be known, about the memory
    hot_values: int = 0  # in the routing table, cooling ones too
    busiest_share: float = 1.0  # the busiest bucket's work over the mean bucket's
    results_shed: int = 0  # partial results that later levels have shed
    totals: Totals = Totals()
    site: SiteProgress | None = None  # of a part of a query across sites

    @property
    def shed(self) -> int:
        """Tuples shed, and partial results."""
        return sum(item.shed for item in self.inputs) + self.results_shed

    @property
    def rows(self) -> int:
        return sum(item.rows for item in self.inputs)

    @property
    def rows_per_s(self) -> float:
        return sum(item.rows_per_s for item in self.inputs)

    @property
    def late(self) -> int:
        return sum(item.late for item in self.inputs)

    @property
    def ahead(self) -> int:
        return sum(item.ahead for item in self.inputs)

    def as_json(self) -> dict[str, Any]:
        """Every field as plain JSON, with the sums over inputs; totals as `total_rows` and so on."""
        document = asdict(self)
        totals = {**document.pop("totals"), "completeness": self.totals.completeness}
        if self.site is None:
            del document["site"]
        inputs = [{**asdict(item), "event_rows_per_s": item.event_rows_per_s} for item in self.inputs]
        sums = {"rows": self.rows, "rows_per_s": self.rows_per_s, "late": self.late}
        sums |= {"ahead": self.ahead, "shed": self.shed}
        return {**document, "inputs": inputs, **sums, **{f"total_{name}": n for name, n in totals.items()}}


BEFORE_FIRST = Progress(batch_id=-1, timestamp="", batch_ms=0)


def parse_progress(
    report: Mapping[str, Any],
    streams: Mapping[str, str] | None = None,
    previous: Progress | None = None,
) -> Progress:
    """A report as `Progress`.

    `streams` names the stream of each alias, where they differ. `previous` is the report before: rates are
    taken over the time since it, totals add to its totals, and values that an idle batch does not report stay
    as they were.
    """
    before = previous or BEFORE_FIRST
    if report["batchId"] == before.batch_id and not report.get("numInputRows"):
        return before
    metrics, malformed = observed_metrics(report), _malformed(report)
    batch_ms = int(report.get("durationMs", {}).get("triggerExecution", report.get("batchDuration", 0)))
    seconds = max(_seconds_since(before, report["timestamp"]), batch_ms / 1000, 0.001)
    watermark = _time(metrics.get("watermark_us"), before.watermark_us)
    inputs = tuple(
        _input(before, alias, (streams or {}).get(alias, alias), metrics, seconds, watermark, malformed)
        for alias in _aliases(metrics, before)
    )
    batch = _totals(report, metrics, inputs, sum(malformed.values()))
    return Progress(
        batch_id=int(report["batchId"]),
        timestamp=str(report["timestamp"]),
        batch_ms=batch_ms,
        inputs=inputs,
        watermark_us=watermark,
        state_rows=metrics.get("state_rows", before.state_rows),
        state_bytes=metrics.get("state_bytes", before.state_bytes),
        memory_bytes=metrics.get("memory_bytes", before.memory_bytes),
        answers=batch.answers,
        answers_per_s=batch.answers / seconds,
        kernel_ms=metrics.get("kernel_us", 0) / 1000,
        malformed=batch.malformed,
        arrived_bytes=metrics.get("arrived_bytes", 0),
        completeness=_share(batch, before.completeness),
        hot_values=metrics.get("hot_values", before.hot_values),
        busiest_share=_busiest_share(metrics),
        results_shed=metrics.get("results_shed", 0),
        totals=before.totals + batch,
    )


def _totals(
    report: Mapping[str, Any], metrics: Mapping[str, int], inputs: Sequence[InputProgress], malformed: int
) -> Totals:
    """The totals of one batch."""
    return Totals(
        rows=sum(item.rows for item in inputs),
        late=sum(item.late for item in inputs),
        ahead=sum(item.ahead for item in inputs),
        answers=_answers(report, metrics),
        batches=1,
        malformed=malformed,
        shed=sum(item.shed for item in inputs) + metrics.get("results_shed", 0),
        # Joins of several levels find combinations that are no answers yet: there answers are counted apart.
        combinations=metrics.get("found", metrics.get("combinations", 0)),
        missed=metrics.get("missed_milli", 0) / 1000,
        left_out=int(_observed(report, VALUES_OBSERVATION).get("left_out") or 0)
        + metrics.get("values_left_out", 0),
    )


def _answers(report: Mapping[str, Any], metrics: Mapping[str, int]) -> int:
    """The rows that are written, where they are counted; otherwise what the join has found."""
    written = _observed(report, ANSWERS_OBSERVATION).get("rows")
    return metrics.get("answers", 0) if written is None else int(written)


def _share(totals: Totals, otherwise: float) -> float:
    possible = totals.combinations + totals.missed
    return max(0.0, totals.combinations / possible) if possible > 0 else otherwise


def _busiest_share(metrics: Mapping[str, int]) -> float:
    work = metrics.get("work", 0)
    return metrics["busiest_work"] * metrics["buckets"] / work if work else 1.0


def observed_metrics(report: Mapping[str, Any]) -> dict[str, int]:
    """What the stages of a batch have reported, by name; empty if no stage ran."""
    reported = _observed(report, OBSERVATION).get("metrics") or {}
    return {name: int(value) for name, value in reported.items()}


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


def _aliases(metrics: Mapping[str, int], before: Progress) -> list[str]:
    found = [name.removeprefix("input_") for name in metrics if name.startswith("input_")]
    return found or [item.alias for item in before.inputs]


def _input(
    previous: Progress,
    alias: str,
    stream: str,
    metrics: Mapping[str, int],
    seconds: float,
    watermark: int | None,
    malformed: Mapping[str, int],
) -> InputProgress:
    rows = metrics.get(f"input_{alias}", 0)
    before = next((item for item in previous.inputs if item.alias == alias), _unseen(alias))
    newest = _later(_time(metrics.get(f"max_ts_{stream}"), None), before.max_ts_us)
    return InputProgress(
        alias=alias,
        rows=rows,
        rows_per_s=rows / seconds,
        late=metrics.get(f"late_{alias}", 0),
        null_times=metrics.get(f"null_times_{alias}", 0),
        ahead=metrics.get(f"ahead_{alias}", 0),
        max_ts_us=newest,
        ahead_us=None if newest is None or watermark is None else newest - watermark,
        malformed=malformed.get(stream, 0),
        shed=metrics.get(f"shed_{alias}", 0),
        kept=metrics.get(f"kept_{alias}", before.kept),
        kept_bytes=metrics.get(f"bytes_kept_{alias}", before.kept_bytes),
        read=metrics.get(f"read_{alias}", 0),
        passed=metrics.get(f"passed_{alias}", 0),
        keyless=metrics.get(f"keyless_{alias}", 0),
        null_keys=_null_keys(metrics, alias),
        since=_since(before, newest, rows),
    )


def _null_keys(metrics: Mapping[str, int], alias: str) -> tuple[tuple[int, int], ...]:
    """By attribute, how many tuples have none; names are `null_key_<number>_<alias>`."""
    found = []
    for name, count in metrics.items():
        number, _, of = name.removeprefix("null_key_").partition("_")
        if name.startswith("null_key_") and of == alias and count:
            found.append((int(number), count))
    return tuple(sorted(found))


def _unseen(alias: str) -> InputProgress:
    """An input before its first batch."""
    return InputProgress(
        alias=alias, rows=0, rows_per_s=0.0, late=0, null_times=0, max_ts_us=None, ahead_us=None
    )


def _since(before: InputProgress, newest: int | None, rows: int) -> tuple[int, int] | None:
    if before.since is not None:
        return before.since[0], before.since[1] + rows
    return None if newest is None else (newest, 0)


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _time(value: int | None, otherwise: int | None) -> int | None:
    return otherwise if value is None or value <= BEGINNING else value


def _seconds_since(before: Progress, timestamp: str) -> float:
    if not before.timestamp:
        return 0.0
    return (datetime.fromisoformat(timestamp) - datetime.fromisoformat(before.timestamp)).total_seconds()
