"""A streaming query of Spark, followed batch by batch: the common part of a job and of a shared job.

Following it means pacing it, too: what its batches report decides how much the next ones take of each source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import MemoryShortageError, WatersmeetError
from watersmeet.spark.jobs.running_query import RunningQuery
from watersmeet.spark.metrics.batch_reports import BatchReports, Report, all_reports
from watersmeet.spark.metrics.progress import Progress, parse_progress
from watersmeet.spark.pace.pacing import Pacing, start_pacing
from watersmeet.spark.sources.read_sources import Sources

SMALLEST = 1024  # batches are never cut to less than this part of what they were

ReadSmaller = Callable[[int], Sources]  # the sources with batches that many times smaller


@dataclass(kw_only=True)
class PolledQuery(RunningQuery):
    """A query whose batches are reported; `progress` is that of its newest batch."""

    sources: Sources
    read_smaller: ReadSmaller | None = None
    awaits: tuple[str, ...] = ()  # the queries that have to end before it starts
    progress: Progress | None = None
    _smaller: int = 1  # how many times smaller than at the start batches are
    _pacing: Pacing | None = None
    _notices: list[str] = field(default_factory=list)  # to be reported with the next batches
    _reports: BatchReports = field(default_factory=BatchReports)
    _unreported: list[Progress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._notices += self.sources.notices

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be known of the query before it runs."""
        return ()

    def take_warnings(self) -> list[str]:
        """What its batches have brought to light since the last call."""
        return []

    def conclude(self) -> list[str]:
        """What is to be said of its batches once all input is taken."""
        return []

    @property
    def reports(self) -> list[Report]:
        """Spark's own reports of the latest batches of the present run."""
        assert self._query is not None
        return all_reports(self._query)

    def poll(self) -> list[Progress]:
        """The batches finished since the last call; raises what made the query fail, in plain words."""
        self._read_reports()
        fresh, self._unreported = self._unreported, []
        self._pace(fresh)
        self.check()
        if fresh and self._notices:
            fresh[-1] = self.progress = replace(fresh[-1], notice=self._notices.pop(0))
        return fresh

    def start(self) -> None:
        self._read_reports()
        super().start()

    def is_running(self) -> bool:
        """Whether there is more to come, also of streams that have waited for others."""
        if super().is_running():
            return True
        if self.failure is not None or self._is_stopped or self._pacing is None or not self._pacing.has_held:
            return False
        # A stream that waited when the others had nothing left may have more. This ends by itself: every run
        # begins with a batch in which no stream waits.
        self.start()
        return True

    def let_go(self) -> None:
        """Lets streams that wait for others go on, since nobody will follow the query for now."""
        if self._pacing is not None:
            self._pacing.release()

    def prepare_again(self, failure: WatersmeetError) -> None:
        """After a crash by memory batches are half as large; the one that failed is cut into pieces."""
        if isinstance(failure, MemoryShortageError):
            self._halve_batches()

    def _halve_batches(self) -> bool:
        """Takes half as much into the batches of the next start, if that can be done."""
        if self.read_smaller is None or self._smaller >= SMALLEST:
            return False
        self._smaller *= 2
        self.sources = self.read_smaller(self._smaller)
        return True

    def _start_pacing(
        self,
        query: StreamingQuery,
        inputs: Sequence[tuple[str, str]],
        leaves: Sequence[str | None],
        *,
        ends: bool,
    ) -> StreamingQuery:
        """Paces a query that has just been started; see `start_pacing`."""
        self._pacing = start_pacing(query, self.sources, inputs, leaves, is_finite=ends)
        return query

    def _pace(self, fresh: Sequence[Progress]) -> None:
        """Decides by the newest batches what the next ones take; no stream waits for one that has nothing."""
        if self._pacing is None:
            return
        for progress in fresh:
            self._pacing.advance(progress)
        if self._pacing.is_holding and not fresh and self._finds_nothing():
            self._pacing.release()

    def _finds_nothing(self) -> bool:
        """Whether it runs, and no source that may give tuples has any."""
        query = self._query
        return query is not None and str(query.status["message"]).startswith("Waiting for data")

    def _read_reports(self) -> None:
        """Takes the reports that Spark has; a query that is started again forgets them."""
        for report in self._reports.fresh(self._query) if self._query else ():
            self.progress = self._parse(report)
            self._unreported.append(self.progress)
            self._retries.reset()

    def _parse(self, report: Report) -> Progress:
        """A report as progress, its totals on top of those of the batch before."""
        return parse_progress(report, None, self.progress)
