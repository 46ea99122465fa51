"""What a bucket at a site is sent: the messages of a shared dataflow, and what links report."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.spark.exchange.codec import Codec
from watersmeet.spark.exchange.messages import EndOfInput
from watersmeet.spark.exchange.packed_chunk import PackedChunk
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


@dataclass(frozen=True)
class PieceRows:
    """A bucket's part of the rows of a piece, which may have come before; for the first level."""

    bucket: int
    piece: str  # `topic_messages.piece_name`
    chunk: PackedChunk


@dataclass(frozen=True)
class PiecesOfLink:
    """All that a task has read of a topic: pieces and ends of batches, for the first level."""

    bucket: int
    body: bytes  # JSON: a list of keys, those of ends with what the message says


SiteMessage = LevelMessage | MarksOfLink | PieceRows | PiecesOfLink

SITE_MESSAGES: Codec[SiteMessage] = Codec(
    LevelRows,
    InputProgress,
    Bounds,
    EndOfInput,
    Answers,
    LevelMetrics,
    MarksOfLink,
    PieceRows,
    PiecesOfLink,
)
