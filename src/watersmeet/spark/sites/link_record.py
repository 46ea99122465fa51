"""What a site has put onto a link so far, kept in its own checkpoint: the number of batches, and the counts.

    CHECKPOINT/sites/SITE/QUERY/links/TARGET.json

It is written before the batch it is about is sent, and says which batch comes before. A batch that is done
again finds its own number there, and counts in place of its first try. So each batch counts once, and files
or messages that have been read need not be kept for the bill.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from watersmeet.errors import DataError
from watersmeet.plan.sites.site_program import Send
from watersmeet.spark.storage.folder import Folder

N = TypeVar("N", int, float)

NOTHING = -1  # the number before that of the first batch


@dataclass(frozen=True, kw_only=True)
class LinkCounts:
    """What has crossed a link: rows and the bytes of their chunks, by send, and the time they are from."""

    rows: Mapping[str, int] = field(default_factory=dict)
    chunk_bytes: Mapping[str, int] = field(default_factory=dict)
    priced: Mapping[str, float] = field(default_factory=dict)  # where not every row costs the same
    mark_bytes: int = 0
    framed_bytes: int = 0  # as files, or as keys and values of messages
    batches: int = 0
    messages: int = 0  # files, or messages
    first_us: int | None = None  # the earliest and the latest event time of a row
    last_us: int | None = None

    def __add__(self, other: LinkCounts) -> LinkCounts:
        times = [each.first_us for each in (self, other) if each.first_us is not None]
        ends = [each.last_us for each in (self, other) if each.last_us is not None]
        return LinkCounts(
            rows=_sum(self.rows, other.rows),
            chunk_bytes=_sum(self.chunk_bytes, other.chunk_bytes),
            priced=_sum(self.priced, other.priced),
            mark_bytes=self.mark_bytes + other.mark_bytes,
            framed_bytes=self.framed_bytes + other.framed_bytes,
            batches=self.batches + other.batches,
            messages=self.messages + other.messages,
            first_us=min(times, default=None),
            last_us=max(ends, default=None),
        )

    @property
    def total_rows(self) -> int:
        return sum(self.rows.values())

    @property
    def total_chunk_bytes(self) -> int:
        return sum(self.chunk_bytes.values())

    def priced_bytes(self, sends: Iterable[Send]) -> float:
        """The rows at the sizes that the plan's statistics give them, as the simulator counts."""
        by_rows = (send.tuple_bytes * self.rows.get(send.name, 0) for send in sends)
        return math.fsum((*by_rows, *self.priced.values()))


@dataclass(frozen=True)
class Sent:
    """The newest batch on a link, the one before it, and what crossed before it and with it."""

    number: int = NOTHING
    previous: int = NOTHING
    before: LinkCounts = LinkCounts()
    newest: LinkCounts = LinkCounts()

    @property
    def total(self) -> LinkCounts:
        return self.before + self.newest

    def with_batch(self, number: int, counts: LinkCounts) -> Sent:
        """After another batch, or after another try of the newest."""
        if number == self.number:
            return Sent(number, self.previous, self.before, counts)
        return Sent(number, self.number, self.total, counts)


@dataclass(frozen=True)
class LinkRecord:
    """The file with what a site has put onto a link."""

    spark: SparkSession
    folder: str  # of the site's part of the query
    target: str

    def read(self) -> Sent:
        """What is known; nothing on a new link."""
        try:
            text = Folder(self.spark, self.folder).read(self._name)
            return NEW if text is None else sent_from_json(json.loads(text))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise DataError(
                f"the checkpoint {self.folder} is damaged: {self._name} cannot be read ({error}). "
                "Put it back from a copy, or start all sites anew with another checkpoint"
            ) from None

    def note(self, number: int, counts: LinkCounts) -> Sent:
        """Remembers a batch that is about to be sent."""
        known = self.read()
        if known.number > number:
            raise DataError(
                f"batch {number} is to be sent, but {self._name} of the same checkpoint has batch "
                f"{known.number}, as if an older copy of a part had been put back. Put the newer one back"
            )
        sent = known.with_batch(number, counts)
        try:
            Folder(self.spark, self.folder).write(self._name, json.dumps(sent_to_json(sent)))
        except OSError as error:
            raise DataError(f"the checkpoint {self.folder} cannot be written: {error}") from None
        return sent

    @property
    def _name(self) -> str:
        return record_name(self.target)


NEW = Sent()


def record_name(target: str) -> str:
    """Where the record of a link is in the folder of the site that sends."""
    return f"links/{target.lower()}.json"


def sent_to_json(sent: Sent) -> dict[str, Any]:
    """A record as it is written."""
    return {
        "number": sent.number,
        "previous": sent.previous,
        "before": vars(sent.before),
        "newest": vars(sent.newest),
    }


def sent_from_json(fields: Mapping[str, Any]) -> Sent:
    """A record as it was written."""
    before, newest = (LinkCounts(**fields[name]) for name in ("before", "newest"))
    return Sent(int(fields["number"]), int(fields["previous"]), before, newest)


def _sum(one: Mapping[str, N], other: Mapping[str, N]) -> dict[str, N]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
