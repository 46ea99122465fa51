"""What a bucket of a level is sent: the kinds of rows in the shuffle of a shared dataflow.

A level takes the messages that are for it and hands on all others as they are, so one exchange after another
carries everything: tuples on their way to a later level, results, answers, and the metrics of each level.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.spark.exchange.codec import Codec
from watersmeet.spark.exchange.messages import UNKNOWN, EndOfInput
from watersmeet.spark.exchange.packed_chunk import PackedChunk


@dataclass(frozen=True)
class LevelRows:
    """Tuples of a feed, or results of a relation, for a level."""

    bucket: int
    level: int
    source: str  # the feed or the relation
    chunk: PackedChunk


@dataclass(frozen=True, kw_only=True)
class InputProgress:
    """How far an input's stream has come in a task, for the first level."""

    bucket: int
    name: str  # of the input
    rows: int = 0
    max_ts: int = UNKNOWN
    now_us: int = UNKNOWN
    null_times: int = 0  # tuples that were dropped because their event time was NULL
    ahead: int = 0  # tuples that were dropped because their event time was too far ahead of the batch's
    mark: int = UNKNOWN  # of a stream of answers: no later tuple of it is before
    frequent: bytes = b""  # the frequent values of the task's tuples, where they matter


@dataclass(frozen=True)
class Bounds:
    """All streams' bounds before and after the batch, and the values alive, from the level before."""

    bucket: int
    level: int
    body: bytes  # JSON


@dataclass(frozen=True)
class Answers:
    """Answers of queries whose tails have one template."""

    bucket: int
    template: str
    rows: int
    chunk: PackedChunk


@dataclass(frozen=True)
class LevelMetrics:
    """The metrics of a bucket of a level."""

    bucket: int
    text: str


LevelMessage = LevelRows | InputProgress | Bounds | EndOfInput | Answers | LevelMetrics

LEVEL_MESSAGES: Codec[LevelMessage] = Codec(
    LevelRows, InputProgress, Bounds, EndOfInput, Answers, LevelMetrics
)


def level_of(message: LevelMessage) -> int | None:
    """The level that a message is for; None if it is to leave the dataflow."""
    match message:
        case LevelRows() | Bounds():
            return message.level
        case InputProgress() | EndOfInput():
            return 1
        case Answers() | LevelMetrics():
            return None
