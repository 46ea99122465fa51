"""The order of a stream's tuples under windows that count rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet.query import Stream
from watersmeet.query.values import order_key


def row_order_key(stream: Stream, ts: int, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sorts tuples of a stream: by ts, then by the values of scalar columns as declared."""
    scalars = [
        column.name
        for column in stream.columns
        if column.name != stream.event_time and not column.type.lower().startswith(("array", "struct", "map"))
    ]
    return (ts, *(order_key(values[name]) for name in scalars))
