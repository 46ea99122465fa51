"""Scripted micro-batches: what a test writes becomes tuples of the declared streams, or is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from watersmeet.errors import ConfigurationError
from watersmeet.oracle.event_time import compute_time
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import Stream
from watersmeet.query.arrow_types import arrow_type
from watersmeet.query.values import timestamp_us

Row = dict[str, Any]  # values by declared column; the event time in whole microseconds, or None
Written = Sequence[Any] | Mapping[str, Any] | Tuple  # a tuple as a test writes it


@dataclass(frozen=True)
class Batch:
    """What arrives together, by stream, and the batch's own time, by which idle_after and max_ahead go.

    `marks` say of streams of answers before when no later tuple of theirs is.
    """

    rows: Mapping[str, Sequence[Written]] = field(default_factory=dict)
    now: int | str | dt.datetime | None = None
    marks: Mapping[str, int] = field(default_factory=dict)


def read_batch(
    batch: Batch | Mapping[str, Sequence[Written]], streams: Sequence[Stream]
) -> dict[str, list[Row]]:
    """The tuples of a batch by stream, each checked against its stream's columns."""
    rows = batch.rows if isinstance(batch, Batch) else batch
    known = {stream.name.lower(): stream for stream in streams}
    found: dict[str, list[Row]] = {}
    for name, written in rows.items():
        stream = known.get(name.lower())
        if stream is None:
            names = ", ".join(stream.name for stream in streams)
            raise ConfigurationError(f"the batch has tuples of {name}, which is not a stream here: {names}")
        found[stream.name] = [_read_row(stream, number, one) for number, one in enumerate(written)]
    return found


def read_instant(value: int | str | dt.datetime) -> int:
    """An instant in microseconds; text without a date is of 1 January 1970, and all is UTC."""
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value if "-" in value else f"1970-01-01 {value}")
    return timestamp_us(value)


def as_oracle(streams: Sequence[Stream], rows: Mapping[str, Sequence[Row]]) -> MicroBatch:
    """The batch as the oracle takes it, without tuples that have no event time."""
    found = {}
    for stream in streams:
        time = stream.event_time
        assert time is not None
        own = rows.get(stream.name, ())
        found[stream.name] = [
            Tuple(row[time], {name: value for name, value in row.items() if name != time})
            for row in own
            if row[time] is not None
        ]
    return found


def _read_row(stream: Stream, number: int, written: Written) -> Row:
    if isinstance(written, Tuple):
        return {**written.values, stream.event_time or "": written.ts}
    stored = stream.as_stored.columns
    names = [column.name for column in stored]
    where = f"tuple {number} of {stream.name}"
    if isinstance(written, Mapping):
        given = {str(name).lower(): value for name, value in written.items()}
        unknown = given.keys() - {name.lower() for name in names}
        if unknown:
            raise ConfigurationError(
                f"{where} has a column {min(unknown)}; {stream.name} has {', '.join(names)}"
            )
        values = [given.get(name.lower()) for name in names]
    else:
        values = list(written)
        if len(values) != len(names):
            raise ConfigurationError(
                f"{where} has {len(values)} values; {stream.name} has {len(names)} columns: "
                f"{', '.join(names)}"
            )
    row = {
        column.name: _read_value(
            f"{where}, column {column.name}", column.type, column.name == stream.event_time, value
        )
        for column, value in zip(stored, values, strict=True)
    }
    if stream.computed_time is not None:
        row[stream.event_time or ""] = compute_time(stream.computed_time, row)
    return row


def _read_value(where: str, type_: str, is_time: bool, value: Any) -> Any:
    """A value as the oracle has it: the event time in microseconds, other instants as datetimes."""
    if value is None:
        return None
    try:
        if is_time:
            return read_instant(value)
        if type_ == "timestamp":
            return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=read_instant(value))
        if type_ == "date" and isinstance(value, str):
            value = dt.date.fromisoformat(value)
        if type_.startswith("decimal") and isinstance(value, int | str):
            value = Decimal(str(value))
        return pa.scalar(value, arrow_type(type_)).as_py()
    except (ValueError, TypeError, AttributeError, pa.ArrowException):
        raise ConfigurationError(f"{where}: {value!r} is not a {type_}") from None
