"""What a site's batches have come to, noted as they leave: what was sent and seen, how old answers were.

Spark's query holds on to whatever it calls with a batch. So this does not know the job, which holds the
query: otherwise a query that was started again would stay in the JVM, with all that it has used.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet.query import BEGINNING, NEVER
from watersmeet.spark.jobs.sites.site_checkpoint import SiteCheckpoint
from watersmeet.spark.metrics.site_progress import SentProgress, SiteProgress
from watersmeet.spark.sites.batch_contents import BatchContents
from watersmeet.spark.sites.link_record import Sent
from watersmeet.spark.sites.tasks import SiteTasks


@dataclass
class SiteNotes:
    """The notes of one site's part of a query."""

    tasks: SiteTasks
    checkpoint: SiteCheckpoint
    last_batch: int | None = None  # after which nothing can come, or nothing that is not another plan's
    _sent: dict[str, Sent] = field(default_factory=dict)  # of each link on its way out
    _delays_s: tuple[float, float] | None = None  # of the newest batch with answers: the mean, the longest
    _seen_us: int = BEGINNING

    def resume(self) -> None:
        """Takes up what an earlier run has seen."""
        self._seen_us = max(self._seen_us, self.checkpoint.seen_us())

    def note_seen(self, contents: BatchContents) -> None:
        """What event time the site's own streams have come to; at the end of the input nobody asks."""
        after, seen = contents.after or {}, self._seen_us
        for alias in self.tasks.site.program.aliases:
            mark = after.get(alias, BEGINNING)
            if BEGINNING < mark < NEVER:
                seen = max(seen, mark + self.tasks.query.input(alias).stream.lateness_us)
        if seen > self._seen_us:
            self.checkpoint.note_seen(seen)
            self._seen_us = seen

    def note(self, batch: int, contents: BatchContents, sent: Mapping[str, Sent]) -> None:
        """What a batch has come to; called before Spark reports it."""
        self._sent = {**self._sent, **sent}
        found, now_us = contents.answers, time.time() * 1e6
        if found.rows:
            self._delays_s = ((now_us - found.mean_us) / 1e6, (now_us - found.first_us) / 1e6)
        if self.last_batch is None and self.tasks.tenure.is_over(contents.after or {}):
            self.last_batch = batch

    def progress(self, read: Mapping[str, int]) -> SiteProgress:
        """The site, given what it has read of each link."""
        mean, longest = self._delays_s or (None, None)
        sent = self._sent
        return SiteProgress(
            site=self.tasks.site.program.site,
            sent=tuple(self._sent_progress(target, sent[target]) for target in sorted(sent)),
            read=read,
            delay_s=mean,
            longest_delay_s=longest,
        )

    def _sent_progress(self, target: str, sent: Sent) -> SentProgress:
        sends = [send for send in self.tasks.site.program.sends if send.target == target]
        return SentProgress(
            to=target,
            batch=sent.number,
            rows=sent.total.total_rows,
            bytes=sent.total.priced_bytes(sends),
            chunk_bytes=sent.total.total_chunk_bytes,
            framed_bytes=sent.total.framed_bytes,
            messages=sent.total.messages,
            first_us=sent.total.first_us,
            last_us=sent.total.last_us,
        )
