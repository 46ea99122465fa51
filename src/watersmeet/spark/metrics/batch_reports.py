"""Spark's reports of a query's batches, each told once.

Spark renders a report anew whenever it is asked for, and keeps a hundred. So only the newest is looked at,
and all of them when it shows that some were missed.
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
    """What has been told of a query, which may be started again."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}  # of each run the last batch told

    def fresh(self, query: StreamingQuery) -> list[Report]:
        """The reports of batches that were not told before, in order."""
        newest = query.lastProgress
        if newest is None:
            return []
        report: Report = json.loads(newest.json)
        run, told = report["runId"], self._told.get(report["runId"])
        # A report of an idle query has the number of the batch to come.
        done = report["batchId"] if _is_of_batch(report) else report["batchId"] - 1
        if told is not None and done <= told:
            return []
        is_next = told is not None and done == told + 1 and _is_of_batch(report)
        reports = [report] if is_next else all_reports(query)
        fresh = [one for one in reports if _is_of_batch(one) and (told is None or one["batchId"] > told)]
        self._told[run] = max([done, *(one["batchId"] for one in fresh)])
        return fresh


def _is_of_batch(report: Report) -> bool:
    return bool(report.get("observedMetrics"))
