"""One query of a pipeline as it runs: started, followed, ended, resumed."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import ConfigurationError, MemoryShortageError
from watersmeet.kernel import StateLimit
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.state_growth import describe_growth
from watersmeet.query import Sink
from watersmeet.spark.compile.compile import Compiler
from watersmeet.spark.jobs.checkpoint import Checkpoint
from watersmeet.spark.jobs.poll import PolledQuery
from watersmeet.spark.jobs.running_query import stop_query
from watersmeet.spark.metrics.batch_reports import Report
from watersmeet.spark.metrics.progress import Progress, parse_progress
from watersmeet.spark.metrics.symptoms import Symptoms
from watersmeet.spark.sinks.target import BatchSink
from watersmeet.spark.sinks.write_stream import write_stream
from watersmeet.spark.sources.derived.tables import table_versions
from watersmeet.spark.sources.known_options import describe_misspelt
from watersmeet.spark.sources.read_sources import Sources
from watersmeet.sql.binding.limits.describe_endless import describe_endless

SMALLEST_AFTER_KILL = 16  # a process may be killed for other reasons, again and again
KEEP_EVERY_S = 30  # progress is written to the checkpoint this often, and at the end


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run: every `trigger_us`, or once over the data there now; with `flush` no more will come."""

    trigger_us: int | None = None
    available_now: bool = False
    flush: bool = False
    limit: StateLimit | None = None  # of the memory for each query's state
    routing: str | None = None  # shares, pipeline, rewrite or native; None: whichever costs less
    evolve: bool = False  # whether a changed query may make another set of the tuples that are kept
    accept_gap: bool = False  # whether some of its answers may be missing for want of tuples

    def __post_init__(self) -> None:
        if self.flush and not self.available_now:
            raise ConfigurationError("--flush ends the input, so it goes with --available-now")
        if self.accept_gap and not self.evolve:
            raise ConfigurationError("--accept-gap is for a changed query, so it goes with --evolve")


@dataclass(kw_only=True)
class Job(PolledQuery):
    """A running query; with `flush` a second, short run lets out answers that wait for the watermark."""

    spark: SparkSession
    name: str
    plan: PhysicalPlan
    sink: Sink | None
    checkpoint: Checkpoint
    base: Path
    options: RunOptions
    into: BatchSink | None = None  # where the answers go if others read them as a stream
    has_ended: bool = False  # by an earlier run, which has ended its input
    changes: tuple[str, ...] = ()  # what there is to say of how the query has changed since its last run
    read_rest: Callable[[], Sources] | None = None  # all that the sources have left, in one batch
    keeps_time: ClassVar[bool] = False  # whether the answers are written with their times
    _kept_at: float = 0.0
    _ending: bool = False
    _has_begun: bool = False
    _symptoms: Symptoms | None = None
    _found: list[str] = field(default_factory=list)  # warnings of the run that nobody has taken yet
    _looked_at: float = -math.inf  # when the files of tables were looked at

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be known of the query before it runs."""
        query = self.plan.query
        expressions = [*query.residual, *(output.expr for output in query.select)]
        expressions += [each for item in query.inputs for each in item.filters]
        computed = [each.sql for each in expressions if not each.is_column]
        return (*describe_growth(query), *describe_misspelt(query.streams), *describe_endless(computed))

    def launch(self) -> StreamingQuery:
        """Starts, or resumes from the checkpoint; an end of the input that was cut short is finished."""
        self._begin_run()
        if not self._ending and self.checkpoint.is_ending():
            self._end_input()
        is_finite = self.options.available_now or self._ending
        query = self.write(self.answers(self.sources), is_finite=is_finite)
        inputs = list(self._streams.items())
        return self._start_pacing(query, inputs, self._leaves, ends=is_finite)

    def answers(self, sources: Sources) -> DataFrame:
        """The answers as a streaming DataFrame that reads these sources."""
        return Compiler(
            spark=self.spark,
            plan=self.plan,
            sources=sources.tuples,
            control=self.checkpoint.control(),
            files=sources.files,
            limit=self.options.limit,
            checkpoint=self.checkpoint.folder,
            smaller=self._smaller,
            keeps_time=self.keeps_time,
        ).answers()

    def write(self, answers: DataFrame, *, is_finite: bool) -> StreamingQuery:
        """Starts the query that writes the answers into the sink."""
        return write_stream(
            answers,
            self.sink,
            name=self.name,
            checkpoint=self.checkpoint.spark_folder,
            trigger_us=self.options.trigger_us,
            available_now=is_finite,
            base=self.base,
            into=self.into,
        )

    def _begin_run(self) -> None:
        """Takes less into a batch than a run before that was killed, for lack of memory as far as we know."""
        unended = None if self._has_begun else self.checkpoint.unended_run()
        self._has_begun = True
        if unended is not None and self.read_smaller is not None:
            self._smaller = min(SMALLEST_AFTER_KILL, 2 * unended)
            self.sources = self.read_smaller(self._smaller)
            self._notices.append(
                "the last run was killed, for lack of memory as far as can be told: batches are "
                f"{self._smaller} times smaller in this one"
            )
        self.checkpoint.begin_run(self._smaller)

    def _end_run(self) -> None:
        """Remembers that the process outlived the run; what ran out of memory counts as killed."""
        if self._has_begun and not isinstance(self.failure, MemoryShortageError):
            self._has_begun = False
            with contextlib.suppress(Exception):  # a JVM that is gone is reported by whoever needs it
                self.checkpoint.end_run()

    def poll(self) -> list[Progress]:
        """The batches finished since the last call; raises what made the query fail, in plain words."""
        fresh = super().poll()
        self._look_for_causes(fresh)
        self._reload_tables()
        self._mind_limit(self.options.limit, fresh)
        if fresh and time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self._keep_progress()
        return fresh

    def take_warnings(self) -> list[str]:
        found, self._found = self._found, []
        return found

    def conclude(self) -> list[str]:
        if self._symptoms is None or not self.options.available_now:
            return []
        return self._symptoms.conclude(flushed=self.options.flush)

    def _reload_tables(self) -> None:
        """Resumes with the tables as they are now, if files of theirs have changed; looks now and then."""
        every = [each.table.reload_us for each in self.plan.query.tables if each.table is not None]
        due = min((us for us in every if us is not None), default=None)
        is_continuous = not (self.options.available_now or self._ending)
        if due is None or not is_continuous or time.monotonic() - self._looked_at < due / 1e6:
            return
        self._looked_at = time.monotonic()
        watched = [each for each in self.plan.query.tables if each.table and each.table.reload_us is not None]
        now = table_versions(watched, self.base)
        changed = [name for name, version in now.items() if version != self.sources.versions.get(name)]
        is_active = self._query is not None and self._query.isActive
        if changed and is_active and self.read_smaller is not None and self._query is not None:
            stop_query(self._query)
            self.sources = self.read_smaller(self._smaller)
            self._notices.append(f"table {', '.join(changed)} is read again: its files have changed")
            self.start()

    def _look_for_causes(self, fresh: list[Progress]) -> None:
        if self._symptoms is None:
            self._symptoms = Symptoms(self.plan.travelling)
        for progress in fresh:
            self._found += self._symptoms.observe(progress)

    def _keep_progress(self) -> None:
        if self.progress is not None:
            self._kept_at = time.monotonic()
            # Nothing depends on it, so neither a full disk nor a JVM that is gone is reported from here.
            with contextlib.suppress(Exception):
                self.checkpoint.keep_progress(json.dumps(self.progress.as_json()))

    def _halve_batches(self) -> bool:
        """At the end of the input all that is left stays one batch, in pieces half as large."""
        if not super()._halve_batches():
            return False
        if self._ending and self.read_rest is not None:
            self.sources = self.read_rest()
        return True

    def is_running(self) -> bool:
        """Whether there is more to come; starts the second run of a flush when the first has ended."""
        if super().is_running():
            return True
        if self._is_stopped or self.failure is not None:
            return False
        # Where answers do not wait for the watermark, none is left for a second run to let out.
        is_last = self._ending or not self.plan.query.waits_at_end
        if self.options.flush and not is_last:
            self._end_input()
            self.start()
            return True
        if self._ending or self.options.flush:
            self.checkpoint.mark_ended()
        self._end_run()
        return False

    def _end_input(self) -> None:
        """Ends the input by a new row, which makes a batch even if an earlier row has ended it.

        What the sources have got since the last batch comes with it: after the end it would be late.
        """
        self._ending = True
        if self.read_rest is not None:
            self.sources = self.read_rest()
        self.checkpoint.end_input()

    def _can_shrink(self) -> bool:
        return super()._can_shrink() and not self._ending

    def _holds_what_waits(self) -> bool:
        return self.plan.query.joins_delayed

    @property
    def _leaves(self) -> list[str | None]:
        """The stream of each source in the order of Spark's plan; the control stream comes last."""
        return [*(each.stream.name for each in self.plan.query.readings), None]

    @property
    def _streams(self) -> dict[str, str]:
        """By alias the stream that is read under it, the first one of a view."""
        return {item.alias: item.stream.origins[0].name for item in self.plan.query.inputs}

    def _parse(self, report: Report) -> Progress:
        limit = self.options.limit.nbytes if self.options.limit else None
        return replace(parse_progress(report, self._streams, self.progress), state_limit=limit)

    def stop(self) -> None:
        """Ends the query, and writes its last progress to the checkpoint."""
        super().stop()
        self._end_run()
        if self._query is not None:
            self._keep_progress()
