"""What a site's micro-batch puts onto a link, whatever the link is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import ConfigurationError, LinkError, TransientError, WatersmeetError
from watersmeet.spark.exchange.codec import BUCKET, KIND
from watersmeet.spark.multiquery.messages import LevelRows
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sites.link_file import BODY, SOURCE
from watersmeet.spark.sites.link_record import LinkCounts, Sent
from watersmeet.spark.sites.messages import SITE_MESSAGES

_SOURCE = SITE_MESSAGES.column(LevelRows, "source")
_CHUNK = SITE_MESSAGES.column(LevelRows, "chunk")


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """The rows of a batch for a link, if it has any, and how far their origins have come with it."""

    rows: DataFrame | None  # (bucket, source, body)
    groups: tuple[tuple[str, int], ...]  # what sends there are rows of, in which buckets
    marks: Mapping[str, int]
    fingerprint: str  # of the plan that the sites go by
    batch: int
    batch_plan: str
    writer: str
    counts: LinkCounts


class OutgoingLink(Protocol):
    """One way to another site."""

    def publish(self, parcel: Parcel) -> Sent:
        """Puts a batch's parcel onto the link; done again, it is there once as far as its reader can see."""


class IncomingLink(Protocol):
    """One way from another site."""

    def read(self) -> DataFrame:
        """What is on the link, as it comes, for `SiteTasks.links` to unpack."""


def rows_to_send(messages: DataFrame, sends: list[str]) -> DataFrame | None:
    """The rows among messages that take one of these sends."""
    if not sends:
        return None
    chosen = messages.where((F.col(KIND) == LevelRows.__name__) & F.col(_SOURCE).isin(sends))
    return chosen.select(F.col(BUCKET), F.col(_SOURCE).alias(SOURCE), F.col(_CHUNK).alias(BODY))


def refuse_write(link: str, said: str, error: Exception) -> WatersmeetError:
    """What to raise where a link could not be written: the link, unless it was memory or the like."""
    explained = explain_failure(error) if not isinstance(error, OSError) else None
    if isinstance(explained, TransientError | ConfigurationError):
        return explained
    return LinkError(f"{link} cannot be written: {said}")
