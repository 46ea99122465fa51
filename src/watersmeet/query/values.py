"""When two plain Python values are equal, and which comes first, as Spark sees it.

NaN equals NaN and is the largest number, -0.0 equals 0.0, nested values compare part by part with NULL equal
to NULL inside them, and NULL by itself equals nothing. A timestamp may be a datetime or whole microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

NAN = "NaN"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def canonical(value: Any) -> Hashable:
    """A hashable stand-in: two values that Spark's GROUP BY would not tell apart have the same one."""
    match value:
        case float():
            return (NAN,) if math.isnan(value) else value + 0.0  # adding zero turns -0.0 into 0.0
        case datetime():
            return timestamp_us(value)
        case Mapping():
            return tuple(canonical(part) for part in value.values())
        case list() | tuple():
            return tuple(canonical(part) for part in value)
        case bytearray():
            return bytes(value)
        case _:
            return value  # type: ignore[no-any-return]


def equal(a: Any, b: Any) -> bool | None:
    """SQL equality: None, that is unknown, when either side is NULL."""
    return None if a is None or b is None else canonical(a) == canonical(b)


def order_key(value: Any) -> tuple[Any, ...]:
    """A sort key of one column's values: NULL first, NaN last."""
    match value:
        case None:
            return (0,)
        case float() if math.isnan(value):
            return (2,)
        case list() | tuple():
            return (1, tuple(order_key(part) for part in value))
        case Mapping():
            return (1, tuple(order_key(part) for part in value.values()))
        case _:
            return (1, canonical(value))


def timestamp_us(moment: datetime) -> int:
    """Microseconds since the epoch; a moment without a zone is read as UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def instant_of(microseconds: int) -> datetime:
    """The moment so many microseconds after the epoch."""
    return _EPOCH + microseconds * _MICROSECOND
