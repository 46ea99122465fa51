"""A site's micro-batch on its way out: rows and marks onto the links, answers into the sink, each once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.spark.exchange.codec import KIND
from watersmeet.spark.multiquery.messages import Answers, Bounds, LevelRows
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sinks.answer_ids import Origin
from watersmeet.spark.sinks.batch_plans import BatchPlans
from watersmeet.spark.sinks.target import Batch, BatchSink
from watersmeet.spark.sites.compile import answers_in
from watersmeet.spark.sites.link_file import Marks, marks_for
from watersmeet.spark.sites.link_folder import LinkFolder, link_rows
from watersmeet.spark.sites.messages import SITE_MESSAGES
from watersmeet.spark.sites.tasks import SiteTasks

OnProgress = Callable[[int, Mapping[str, int]], None]  # the batch, and how far each origin has come

_SOURCE = SITE_MESSAGES.column(LevelRows, "source")
_CHUNK = SITE_MESSAGES.column(LevelRows, "chunk")
_BOUNDS = SITE_MESSAGES.column(Bounds, "body")


@dataclass(frozen=True, kw_only=True)
class SiteFill:
    """Called by `foreachBatch`."""

    tasks: SiteTasks
    links: Mapping[str, LinkFolder]  # by the site they go to
    sink: BatchSink
    plans: BatchPlans
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
        bounds, sources, has_answers = _look(messages)
        if has_answers:
            own = Batch(
                number=batch,
                plan=self.plans.of(batch),
                origin=Origin(writer, batch),
                queries=frozenset({writer}),
                answers=lambda _: answers_in(self.tasks, messages),
            )
            self.sink.write(own)
        if bounds is None:
            return
        for target, link in self.links.items():
            self._send(link, target, messages, batch, writer, bounds, sources)
        self.on_progress(batch, bounds["after"])

    def _send(
        self,
        link: LinkFolder,
        target: str,
        messages: DataFrame,
        batch: int,
        writer: str,
        bounds: Mapping[str, Mapping[str, int]],
        sources: set[str],
    ) -> None:
        """Puts onto a link what there is to say: rows, or progress."""
        site = self.tasks.site
        sends = [name for name, send in site.sends.items() if send.target == target and name in sources]
        before, after = (marks_for(site, target, bounds[when]) for when in ("before", "after"))
        if not sends and before == after:
            return
        rows = link_rows(messages, LevelRows.__name__, _SOURCE, _CHUNK, sends) if sends else None
        fingerprint = site.program.fingerprint
        link.publish(
            rows,
            lambda previous: Marks(fingerprint, batch, previous, after).body(),
            batch=batch,
            plan=self.plans.of(batch),
            writer=writer,
        )


def _look(messages: DataFrame) -> tuple[dict[str, dict[str, int]] | None, set[str], bool]:
    """The progress in a batch, the sends that have rows, and whether there are answers."""
    kind = F.col(KIND)
    wanted = messages.where(kind.isin(Bounds.__name__, LevelRows.__name__, Answers.__name__))
    source = F.when(kind == LevelRows.__name__, F.col(_SOURCE)).alias("source")
    body = F.when(kind == Bounds.__name__, F.col(_BOUNDS)).alias("body")
    bounds, sources, has_answers = None, set(), False
    for row in wanted.select(kind, source, body).distinct().collect():
        if row["body"] is not None:
            bounds = json.loads(bytes(row["body"]))
        elif row["source"] is not None:
            sources.add(row["source"])
        else:
            has_answers = True
    return bounds, sources, has_answers
