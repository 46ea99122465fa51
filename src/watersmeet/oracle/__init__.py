"""The semantics as naive code: what a query emits over small lists of tuples, which all else is tested by."""

from watersmeet.oracle.oracle import (
    Answer,
    Arrivals,
    Clock,
    MicroBatch,
    Row,
    Run,
    Tuple,
    accept,
    answers,
    bag,
    emitted,
    run,
    take_in,
    watermark,
)

__all__ = [
    "Answer",
    "Arrivals",
    "Clock",
    "MicroBatch",
    "Row",
    "Run",
    "Tuple",
    "accept",
    "answers",
    "bag",
    "emitted",
    "run",
    "take_in",
    "watermark",
]
