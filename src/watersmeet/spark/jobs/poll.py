"""A streaming query of Spark, followed batch by batch: the common part of a job and of a shared job."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.spark.metrics.batch_reports import BatchReports, Report, all_reports
from watersmeet.spark.metrics.progress import Progress, parse_progress
from watersmeet.spark.session.failures import explain_failure


@dataclass(kw_only=True)
class PolledQuery:
    """A query that may be started several times; `progress` is that of its newest batch."""

    progress: Progress | None = None
    _query: StreamingQuery | None = None
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
        raise_failure(self._query)
        return fresh

    def is_running(self) -> bool:
        assert self._query is not None
        return bool(self._query.isActive)

    def stop(self) -> None:
        """Ends the query; a batch that was running is repeated on resume."""
        stop_query(self._query)

    def _read_reports(self) -> None:
        """Takes the reports that Spark has; to be called before it starts again and forgets them."""
        for report in self._reports.fresh(self._query) if self._query else ():
            self.progress = self._parse(report)
            self._unreported.append(self.progress)

    def _parse(self, report: Report) -> Progress:
        """A report as progress, its totals on top of those of the batch before."""
        return parse_progress(report, None, self.progress)


def raise_failure(query: StreamingQuery | None) -> None:
    """Raises what made a query fail, if it has failed, in plain words."""
    assert query is not None
    if (failure := query.exception()) is not None:
        raise explain_failure(failure)


def stop_query(query: StreamingQuery | None) -> None:
    """Stops a query if it was started; raises a failure to do so in plain words."""
    if query is not None:
        try:
            query.stop()
        except PySparkException as error:
            raise explain_failure(error) from None
