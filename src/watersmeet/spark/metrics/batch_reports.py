"""Spark's reports of a query's batches, each read once.

Spark renders a report anew whenever it is asked for one, and keeps a hundred. So only the newest is read, and
all of them when it shows that some were missed.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

Report = dict[str, Any]


def all_reports(query: StreamingQuery) -> list[Report]:
    """Spark's reports of the latest batches of this run."""
    return [json.loads(report.json) for report in query.recentProgress]


class BatchReports:
    """Which batches of a query have been read; the query may be started again."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # of each run the last batch read

    def fresh(self, query: StreamingQuery) -> list[Report]:
        """The reports of batches not read before, in order."""
        newest = query.lastProgress
        if newest is None:
            return []
        report: Report = json.loads(newest.json)
        run, last = report["runId"], self._last.get(report["runId"])
        # A report of an idle query has the number of the batch to come.
        done = report["batchId"] if _is_of_batch(report) else report["batchId"] - 1
        if last is not None and done <= last:
            return []
        is_next = last is not None and done == last + 1 and _is_of_batch(report)
        reports = [report] if is_next else all_reports(query)
        fresh = [one for one in reports if _is_of_batch(one) and (last is None or one["batchId"] > last)]
        self._last[run] = max([done, *(one["batchId"] for one in fresh)])
        return fresh


def _is_of_batch(report: Report) -> bool:
    return bool(report.get("observedMetrics"))
