"""A streaming query of Spark, followed batch by batch: the common part of a job and of a shared job."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.spark.jobs.running_query import RunningQuery
from watersmeet.spark.metrics.batch_reports import BatchReports, Report, all_reports
from watersmeet.spark.metrics.progress import Progress, parse_progress


@dataclass(kw_only=True)
class PolledQuery(RunningQuery):
    """A query whose batches are reported; `progress` is that of its newest batch."""

    progress: Progress | None = None
    _reports: BatchReports = field(default_factory=BatchReports)
    _unreported: list[Progress] = field(default_factory=list)

    @property
    def reports(self) -> list[Report]:
        """Spark's own reports of the latest batches of the present run."""
        assert self._query is not None
        return all_reports(self._query)

    def poll(self) -> list[Progress]:
        """The batches finished since the last call; raises what made the query fail, in plain words."""
        self._read_reports()
        fresh, self._unreported = self._unreported, []
        self.check()
        return fresh

    def start(self) -> None:
        self._read_reports()
        super().start()

    def _read_reports(self) -> None:
        """Takes the reports that Spark has; a query that is started again forgets them."""
        for report in self._reports.fresh(self._query) if self._query else ():
            self.progress = self._parse(report)
            self._unreported.append(self.progress)
            self._retries.reset()

    def _parse(self, report: Report) -> Progress:
        """A report as progress, its totals on top of those of the batch before."""
        return parse_progress(report, None, self.progress)
