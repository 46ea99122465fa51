"""What a bucket at a site is sent: the messages of a shared dataflow, and what links report."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.spark.exchange.codec import Codec
from watersmeet.spark.exchange.messages import EndOfInput
from watersmeet.spark.multiquery.messages import (
    Answers,
    Bounds,
    InputProgress,
    LevelMessage,
    LevelMetrics,
    LevelRows,
)


@dataclass(frozen=True)
class MarksOfLink:
    """The marks of one file of a link, for the first level."""

    bucket: int
    link: str  # the site it comes from
    number: int
    previous: int
    body: bytes  # JSON


SiteMessage = LevelMessage | MarksOfLink

SITE_MESSAGES: Codec[SiteMessage] = Codec(
    LevelRows, InputProgress, Bounds, EndOfInput, Answers, LevelMetrics, MarksOfLink
)
