"""A streaming query of Spark, followed batch by batch: the common part of a job and of a shared job.

Following it means pacing it, too: what its batches report decides how much the next ones take of each source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import MemoryShortageError, WatersmeetError
from watersmeet.kernel import Shed, StateLimit
from watersmeet.query.byte_size import format_bytes
from watersmeet.spark.jobs.running_query import RunningQuery, stop_query
from watersmeet.spark.metrics.batch_reports import BatchReports, Report, all_reports
from watersmeet.spark.metrics.progress import Progress, parse_progress
from watersmeet.spark.pace.pacing import Pacing, start_pacing
from watersmeet.spark.sources.read_sources import Sources

SMALLEST = 1024  # batches are never cut to less than this part of what they were

WORTH_SHRINKING = 0.1  # a batch that brings less than this share of the limit need not be smaller

ReadSmaller = Callable[[int], Sources]  # the sources with batches that many times smaller


@dataclass(kw_only=True)
class PolledQuery(RunningQuery):
    """A query whose batches are reported; `progress` is that of its newest batch."""

    sources: Sources
    read_smaller: ReadSmaller | None = None
    awaits: tuple[str, ...] = ()  # the queries that have to end before it starts
    progress: Progress | None = None
    _has_warned: bool = False
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

    def _mind_limit(self, limit: StateLimit | None, fresh: list[Progress]) -> None:
        """Says with the newest batch what there is to say of a limit of memory; makes batches smaller."""
        if limit is not None and fresh:
            warn = self._press_back if limit.shed is Shed.NONE else self._warn
            notice = warn(limit, fresh) or fresh[-1].notice
            fresh[-1] = self.progress = replace(fresh[-1], notice=notice)

    def _warn(self, limit: StateLimit, fresh: list[Progress]) -> str:
        """A warning about answers left out, or state over the limit although rows are shed; given once."""
        newest, message = fresh[-1], ""
        if newest.memory_bytes > limit.nbytes and self._holds_what_waits():
            waits = "tuples that wait for the watermark under ROWS windows are not shed"
            message = f"{_over(newest, limit)}: {waits}. Declare a shorter lateness, or give it more memory"
        elif newest.totals.left_out:
            many = f"{newest.totals.left_out} values of DISTINCT are left out so far"
            message = f"{many}: there is no room to remember them, and they would be repeated"
        is_new, self._has_warned = bool(message) and not self._has_warned, self._has_warned or bool(message)
        return message if is_new else ""

    def _press_back(self, limit: StateLimit, fresh: list[Progress]) -> str:
        """Resumes with smaller batches when state is over its limit and they could help; returns a notice."""
        over = [p for p in fresh if p.memory_bytes > limit.nbytes]
        if not over:
            return ""
        message = _over(over[-1], limit)
        brought = max(p.arrived_bytes for p in over)
        if brought > WORTH_SHRINKING * limit.nbytes and self._shrink_batches():
            return f"{message}: batches are {self._smaller} times smaller now"
        if self._has_warned:
            return ""
        self._has_warned = True
        return (
            f"{message}, and smaller batches do not help: the windows do not fit. Nothing is shed; give it "
            "more memory, shorter windows, or a policy that sheds"
        )

    def _shrink_batches(self) -> bool:
        """Resumes with batches half as large, if that can be done; a batch under way is done again."""
        if not self._can_shrink() or self._query is None or not self._query.isActive:
            return False
        stop_query(self._query)
        self._halve_batches()
        self.start()
        return True

    def _can_shrink(self) -> bool:
        """Whether it can be resumed with smaller batches."""
        return self.read_smaller is not None and self._smaller < SMALLEST

    def _holds_what_waits(self) -> bool:
        """Whether tuples that cannot be shed wait for the watermark."""
        return False

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


def _over(progress: Progress, limit: StateLimit) -> str:
    return f"state takes {format_bytes(progress.memory_bytes)}, its limit is {format_bytes(limit.nbytes)}"
