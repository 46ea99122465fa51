"""The event time of a stream: one of its columns, or computed from a number, a text or a field inside one.

A computed event time is a column of its own, of type TIMESTAMP, that the source does not have:

    event_time = 'meta.at', event_time_unit = 'milliseconds'   ->   event_time = timestamp_millis(meta.at)

A value that is no instant, such as a number beyond all of them, makes it NULL: that tuple is left out, and
counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet.errors import WatersmeetError
from watersmeet.query.arrow_types import arrow_type
from watersmeet.query.expression import quote_name

if TYPE_CHECKING:
    from watersmeet.query.stream import Column

TIME_TYPES = ("timestamp", "timestamp_ntz")
FRACTIONS = ("double", "decimal")  # kinds of numbers that only count seconds or milliseconds
UNITS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1, "nanoseconds": 0}
NAMES = ("event_time", "event_timestamp")  # of a computed event time: the first that no column has
_MOST_US = 2**63 - 1
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_WHOLE_PATH = re.compile(r"(?:`(?:[^`]|``)+`|[^.`]+)(?:\.(?:`(?:[^`]|``)+`|[^.`]+))*")


class EventTimeError(ValueError):
    """What is wrong with a declared event time, and what to write."""

    def __init__(self, problem: str, advice: str, setting: str = "event_time") -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice
        self.setting = setting  # the one at fault


@dataclass(frozen=True)
class ComputedTime:
    """An event time that no column holds: what is read, and how it says when."""

    path: tuple[str, ...]  # a column, and fields inside it
    type: str  # timestamp or timestamp_ntz, or another with a unit or a format
    unit: str | None = None
    format: str | None = None

    @property
    def sql(self) -> str:
        """The expression over the columns of the source."""
        value = ".".join(quote_name(part) for part in self.path)
        if self.format is not None:
            text = self.format.replace("\\", "\\\\").replace("'", "\\'")
            return f"try_to_timestamp({value}, '{text}')"
        if self.unit is None:
            return value
        if self.type in FRACTIONS:
            each = UNITS[self.unit]
            most = f"{_MOST_US // each - 1}D"
            counted = f"CAST(round(CAST({value} AS DOUBLE) * {each}) AS BIGINT)"
            return f"CASE WHEN {value} BETWEEN -{most} AND {most} THEN timestamp_micros({counted}) END"
        if self.unit == "nanoseconds":
            return f"timestamp_micros({value} div 1000 - CASE WHEN {value} % 1000 < 0 THEN 1 ELSE 0 END)"
        if self.unit == "microseconds":
            return f"timestamp_micros(CAST({value} AS BIGINT))"
        most = f"{_MOST_US // UNITS[self.unit]}L"
        function = "timestamp_seconds" if self.unit == "seconds" else "timestamp_millis"
        return f"CASE WHEN {value} BETWEEN -{most} AND {most} THEN {function}(CAST({value} AS BIGINT)) END"

    def pretty(self) -> str:
        how = f" in {self.unit}" if self.unit else f" as '{self.format}'" if self.format else ""
        return f"{'.'.join(self.path)}{how}"


def find_event_time(
    columns: Sequence[Column], written: str, unit: str | None = None, format: str | None = None
) -> str | ComputedTime:
    """The column that is the event time, or how it is computed; `EventTimeError` where neither can be.

    A column of the whole name comes before a field of that path.
    """
    if unit is not None and unit.lower() not in UNITS:
        raise EventTimeError(
            f"'{unit}' is not a unit of event times", f"Write {', '.join(UNITS)}.", "event_time_unit"
        )
    if unit is not None and format is not None:
        raise EventTimeError(
            "an event time is a number of some unit or a text of some format, not both",
            "Leave one of them out.",
            "event_time_format",
        )
    path, kind = _find(columns, written)
    unit = unit.lower() if unit else None
    if kind in TIME_TYPES:
        if unit is not None or format is not None:
            raise EventTimeError(
                f"event_time {written} is {kind}, which needs no unit and no format",
                f"Leave it out, or declare {written} as it is in the source: BIGINT, or STRING.",
                "event_time_unit" if unit else "event_time_format",
            )
        return path[0] if len(path) == 1 else ComputedTime(path, kind)
    if kind == "string" and format is not None:
        return ComputedTime(path, kind, format=format)
    if unit is not None and (kind == "bigint" or (kind in FRACTIONS and unit in ("seconds", "milliseconds"))):
        return ComputedTime(path, kind, unit=unit)
    raise EventTimeError(
        f"event_time {written} is {_spelt(columns, path, kind)}, which is no time", _advice(kind)
    )


def _advice(kind: str) -> str:
    match kind:
        case "bigint" | "double" | "decimal":
            return "Say what it counts from 1970 on: event_time_unit = 'seconds', or 'milliseconds'."
        case "string":
            return "Say how it is written: event_time_format = 'yyyy-MM-dd HH:mm:ss', in Spark's letters."
        case "struct":
            return "Name a field inside it: event_time = 'column.field'."
    return (
        "An event time is a TIMESTAMP, or a number with event_time_unit, or a STRING with event_time_format."
    )


def _find(columns: Sequence[Column], written: str) -> tuple[tuple[str, ...], str]:
    """The path of a written event time, spelt as declared, and the kind of value at its end."""
    whole = [column for column in columns if column.name.lower() == written.lower()]
    parts = [written] if whole else _parts(written)
    column = next((each for each in columns if each.name.lower() == parts[0].lower()), None)
    if column is None:
        raise LookupError(parts[0])
    if len(parts) == 1:
        return (column.name,), _kind(column.type)
    path = [column.name]
    kind = _arrow(column.type)
    for part in parts[1:]:
        names = [field.name for field in kind] if kind is not None and pa.types.is_struct(kind) else []
        name = next((name for name in names if name.lower() == part.lower()), None)
        if name is None:
            inside = f"its fields are {', '.join(names)}" if names else "it has no fields"
            raise EventTimeError(
                f"event_time names no field of {'.'.join(path)}: '{part}'",
                f"{inside[0].upper()}{inside[1:]}.",
            )
        path.append(name)
        kind = None if kind is None else kind.field(name).type
    return tuple(path), "unknown" if kind is None else _kind_of(kind)


def _parts(written: str) -> list[str]:
    if not _WHOLE_PATH.fullmatch(written):
        return [written]
    return [(quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(written)]


def _arrow(type_: str) -> pa.DataType | None:
    try:
        return arrow_type(type_)
    except WatersmeetError:
        return None


def _kind(type_: str) -> str:
    known = _arrow(type_)
    return type_ if known is None else _kind_of(known)


def _kind_of(kind: pa.DataType) -> str:
    """What matters of a type: bigint stands for all whole numbers."""
    types = pa.types
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    tests = {
        "bigint": types.is_integer,
        "double": types.is_floating,
        "decimal": types.is_decimal,
        "string": types.is_string,
        "struct": types.is_struct,
    }
    return next((name for name, test in tests.items() if test(kind)), str(kind))


def _spelt(columns: Sequence[Column], path: tuple[str, ...], kind: str) -> str:
    if len(path) > 1:
        return kind
    return next(column.type for column in columns if column.name == path[0])
