"""One site's part of a query as it runs: started, followed, ended, resumed.

With `flush` a first run takes what its own sources hold. A second one tells the other sites so, and goes on
until they have said the same: then nothing more can come over any link, and the site ends by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.errors import ConfigurationError
from watersmeet.query import Query, Sink
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.poll import PolledQuery
from watersmeet.spark.jobs.running_query import stop_query
from watersmeet.spark.jobs.sites.link_retries import LinkRetries
from watersmeet.spark.jobs.sites.read_files import files_read
from watersmeet.spark.jobs.sites.site_checkpoint import SiteCheckpoint
from watersmeet.spark.jobs.sites.site_notes import SiteNotes
from watersmeet.spark.metrics.batch_reports import Report
from watersmeet.spark.metrics.progress import Progress, observed_metrics, parse_progress
from watersmeet.spark.metrics.site_progress import read_batches
from watersmeet.spark.session.connectors import hide_options, refusals_named
from watersmeet.spark.session.environment import keep_renames_safe
from watersmeet.spark.sinks.batch_plans import BatchPlans
from watersmeet.spark.sinks.formats import FORMATS, format_of
from watersmeet.spark.sinks.repeatable import UNREPEATABLE, is_repeatable
from watersmeet.spark.sinks.target import BatchSink, Target
from watersmeet.spark.sinks.write_stream import CONSOLE, spark_interval
from watersmeet.spark.sites.compile import SiteCompiler, answers_in
from watersmeet.spark.sites.fill import SiteFill
from watersmeet.spark.sites.link_folder import LinkFolder
from watersmeet.spark.sites.link_topic import LinkTopic
from watersmeet.spark.sites.messages import SITE_MESSAGES
from watersmeet.spark.sites.tasks import SiteTasks
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.paths import spark_path

Link = LinkFolder | LinkTopic


@dataclass(kw_only=True)
class SiteJob(PolledQuery):
    """A running part of a query."""

    spark: SparkSession
    name: str
    tasks: SiteTasks
    sink: Sink | None
    incoming: Mapping[str, Link]  # by the site they come from
    outgoing: Mapping[str, Link]  # by the site they go to
    checkpoint: SiteCheckpoint
    base: Path
    options: RunOptions
    has_ended: bool = False  # by an earlier run
    _ending: bool = False
    _read: Mapping[str, int] = field(default_factory=dict)  # of each link into the site, the newest batch
    _is_open: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        links = (*self.incoming.values(), *self.outgoing.values())
        self._notes = SiteNotes(self.tasks, self.checkpoint)
        self._retries = LinkRetries(has_topics=any(isinstance(link, LinkTopic) for link in links))

    @property
    def query(self) -> Query:
        return self.tasks.query

    def launch(self) -> StreamingQuery:
        """Starts, or resumes from the checkpoint; an end of the input that was cut short is finished."""
        self._notes.resume()
        if self.options.flush and not self._ending and self.checkpoint.is_ending():
            self._end_input()
        for link in () if self._is_open else (*self.incoming.values(), *self.outgoing.values()):
            link.open()
        self._is_open = True
        folders = [link for link in self.incoming.values() if isinstance(link, LinkFolder)]
        read = files_read(Folder(self.spark, self.checkpoint.folder)) if folders else set()
        for folder in folders:
            folder.sweep(read)
        messages = SiteCompiler(
            self.tasks,
            self.sources.tuples,
            {source: link.read() for source, link in self.incoming.items()},
            self.checkpoint.control(),
        ).messages()
        fill = SiteFill(
            tasks=self.tasks,
            links=self.outgoing,
            sink=self._sink(),
            plans=BatchPlans(self.spark, self.checkpoint.spark_folder),
            on_read=self._notes.note_seen,
            on_progress=self._notes.note,
        )
        keep_renames_safe(self.spark, self.checkpoint.folder)
        writer = (
            messages.writeStream.foreachBatch(fill)
            .option("checkpointLocation", spark_path(self.checkpoint.spark_folder))
            .queryName(self.name)
            .outputMode("append")
        )
        if self.options.available_now and not self._ending:
            writer = writer.trigger(availableNow=True)
        elif self.options.trigger_us is not None:
            writer = writer.trigger(processingTime=spark_interval(self.options.trigger_us))
        return writer.start()

    def is_running(self) -> bool:
        """Whether there is more to come, here or over a link."""
        if super().is_running():
            if not self._has_all():
                return True
            stop_query(self._query)
            self.checkpoint.mark_ended()
            return False
        if self._is_stopped or self.failure is not None or self._has_all():
            return False
        if self.options.flush and not self._ending:
            self._end_input()
            self.start()
            return True
        return False

    def _has_all(self) -> bool:
        """Whether the batch is done after which nothing can come, or nothing that is not another plan's."""
        last, done = self._notes.last_batch, self.progress
        ends = self._ending or self.tasks.tenure.is_replaced
        return ends and last is not None and done is not None and done.batch_id >= last

    def _end_input(self) -> None:
        self._ending = True
        self.checkpoint.end_input()

    def _sink(self) -> BatchSink:
        sink = self.sink or CONSOLE
        opened = format_of(sink.connector)
        if opened is None:
            raise ConfigurationError(
                f"sink {sink.name}: a query across sites writes to {', '.join(sorted(FORMATS))}, not to "
                f"{sink.connector.format}"
            )
        target = Target(
            spark=self.spark,
            sink=sink,
            base=self.base,
            checkpoint=self.checkpoint.spark_folder,
            name=self.name,
        )
        hide_options(self.spark, sink.connector)
        with refusals_named(target.what, sink.connector):
            batches = opened(target)
            answers = answers_in(self.tasks, self.spark.createDataFrame([], SITE_MESSAGES.spark_schema))
            batches.check(answers.columns)
        if not is_repeatable(answers):
            raise ConfigurationError(f"query {self.name} into {target.what}: {UNREPEATABLE}")
        return batches

    def _parse(self, report: Report) -> Progress:
        streams = {alias: self.query.input(alias).stream.name for alias in self.tasks.site.program.aliases}
        progress = parse_progress(report, streams, self.progress)
        self._read = read_batches(observed_metrics(report)) or self._read
        return replace(progress, site=self._notes.progress(self._read))
