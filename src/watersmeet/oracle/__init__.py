"""The semantics as naive code: what a query emits over small lists of tuples, which all else is tested by."""

from watersmeet.oracle.oracle import (
    Answer,
    MicroBatch,
    Row,
    Run,
    Tuple,
    accept,
    answers,
    bag,
    emitted,
    run,
    watermark,
)

__all__ = [
    "Answer",
    "MicroBatch",
    "Row",
    "Run",
    "Tuple",
    "accept",
    "answers",
    "bag",
    "emitted",
    "run",
    "watermark",
]
