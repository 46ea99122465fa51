"""Every batch is reported once, and old reports are asked for only when one was missed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from watersmeet.spark.metrics.batch_reports import BatchReports


@dataclass
class SparkReport:
    json: str


@dataclass
class FakeQuery:
    """A query that has reported so far, and how often it was asked for everything."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0

    def report(self, batch: int, run: str = "r", *, idle: bool = False) -> None:
        metrics = {} if idle else {"watersmeet": {"answers": batch}}
        self.reports.append({"runId": run, "batchId": batch, "observedMetrics": metrics})

    @property
    def lastProgress(self) -> SparkReport | None:  # noqa: N802 - Spark's name
        return SparkReport(json.dumps(self.reports[-1])) if self.reports else None

    @property
    def recentProgress(self) -> list[SparkReport]:  # noqa: N802
        self.asked += 1
        return [SparkReport(json.dumps(report)) for report in self.reports]


def _fresh(reports: BatchReports, query: FakeQuery) -> list[int]:
    return [report["batchId"] for report in reports.fresh(query)]  # type: ignore[arg-type]


def test_batch_after_batch_only_the_newest_is_read() -> None:
    reports, query = BatchReports(), FakeQuery()
    assert _fresh(reports, query) == []
    reported = []
    for batch in range(7, 12):  # a resumed query does not begin at 0
        query.report(batch)
        reported += _fresh(reports, query)
        assert _fresh(reports, query) == []
    assert reported == [7, 8, 9, 10, 11]
    assert query.asked == 1


def test_batches_between_two_looks_are_not_missed() -> None:
    reports, query = BatchReports(), FakeQuery()
    query.report(0)
    assert _fresh(reports, query) == [0]
    for batch in (1, 2, 3):
        query.report(batch)
    assert _fresh(reports, query) == [1, 2, 3]


def test_an_idle_query_reports_nothing_but_hides_nothing() -> None:
    reports, query = BatchReports(), FakeQuery()
    query.report(0, idle=True)
    assert _fresh(reports, query) == []
    query.report(0)
    assert _fresh(reports, query) == [0]
    query.report(1, idle=True)
    assert _fresh(reports, query) == []
    query.report(1)
    query.report(2, idle=True)
    assert _fresh(reports, query) == [1]


def test_a_query_started_again_is_reported_from_its_first_batch() -> None:
    reports, query = BatchReports(), FakeQuery()
    query.report(0)
    assert _fresh(reports, query) == [0]
    again = FakeQuery()
    again.report(0, run="s")
    again.report(1, run="s")
    assert _fresh(reports, again) == [0, 1]
