"""A site's micro-batch on its way out: rows and marks onto the links, answers into the sink, each once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sinks.answer_ids import Origin
from watersmeet.spark.sinks.batch_plans import BatchPlans
from watersmeet.spark.sinks.target import Batch, BatchSink
from watersmeet.spark.sites.batch_contents import BatchContents, look_into
from watersmeet.spark.sites.compile import answers_in
from watersmeet.spark.sites.link_file import marks_for
from watersmeet.spark.sites.link_record import LinkCounts, Sent
from watersmeet.spark.sites.parcel import OutgoingLink, Parcel, rows_to_send
from watersmeet.spark.sites.tasks import SiteTasks

OnProgress = Callable[[int, BatchContents, Mapping[str, Sent]], None]  # the batch, what was in it, and sent

OnRead = Callable[[BatchContents], None]  # called before anything of a batch leaves the site


@dataclass(frozen=True, kw_only=True)
class SiteFill:
    """Called by `foreachBatch`."""

    tasks: SiteTasks
    links: Mapping[str, OutgoingLink]  # by the site they go to
    sink: BatchSink
    plans: BatchPlans
    on_read: OnRead
    on_progress: OnProgress

    def __call__(self, messages: DataFrame, batch: int) -> None:
        query = messages.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query is not None, "foreachBatch runs in the thread of its query"
        messages.persist()
        try:
            self._fill(messages, batch, query[:8])
        except (PySparkException, Py4JJavaError) as error:
            raise explain_failure(error) from error  # further up only the first of its causes would be left
        finally:
            messages.unpersist()

    def _fill(self, messages: DataFrame, batch: int, writer: str) -> None:
        contents = look_into(messages)
        self.on_read(contents)
        if contents.answers.rows:
            own = Batch(
                number=batch,
                plan=self.plans.of(batch),
                origin=Origin(writer, batch),
                queries=frozenset({writer}),
                answers=lambda _: answers_in(self.tasks, messages),
            )
            self.sink.write(own)
        if contents.after is None:
            return
        sent: dict[str, Sent] = {}
        for target, link in self.links.items():
            parcel = self._parcel(target, messages, batch, writer, contents)
            if parcel is not None:
                sent[target] = link.publish(parcel)
        self.on_progress(batch, contents, sent)

    def _parcel(
        self, target: str, messages: DataFrame, batch: int, writer: str, contents: BatchContents
    ) -> Parcel | None:
        """What there is to say to a site, rows or progress; None if nothing."""
        site = self.tasks.site
        assert contents.before is not None
        assert contents.after is not None
        sends = [
            name for name, send in site.sends.items() if send.target == target and name in contents.counts
        ]
        before, after = (marks_for(site, target, each) for each in (contents.before, contents.after))
        if not sends and before == after:
            return None
        return Parcel(
            rows=rows_to_send(messages, sends),
            groups=tuple(group for group in contents.groups if group[0] in sends),
            marks=after,
            fingerprint=site.program.fingerprint,
            batch=batch,
            batch_plan=self.plans.of(batch),
            writer=writer,
            counts=replace(sum((contents.counts[name] for name in sends), LinkCounts()), batches=1),
        )
