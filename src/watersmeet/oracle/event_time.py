"""The event time of a tuple where it is computed, as naively as the rest of the oracle."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from watersmeet.errors import QueryError
from watersmeet.query.declared.event_time import UNITS, ComputedTime
from watersmeet.query.values import timestamp_us

_FARTHEST_US = 2**63 - 1


def compute_time(computed: ComputedTime, values: Mapping[str, Any]) -> int | None:
    """The event time in microseconds; None where the values give none."""
    value: Any = values
    for part in computed.path:
        value = None if value is None else value[part]
    if value is None:
        return None
    if isinstance(value, dt.datetime):
        return timestamp_us(value)
    if computed.format is not None:
        raise QueryError("the oracle reads no formats of times: give the test a stream with a TIMESTAMP")
    if isinstance(value, int):
        us = value // 1_000 if computed.unit == "nanoseconds" else value * UNITS[computed.unit or ""]
    else:
        counted = float(value) * UNITS[computed.unit or ""]
        if not abs(counted) <= _FARTHEST_US:
            return None
        us = int(Decimal(counted).to_integral_value(ROUND_HALF_UP))
    return us if -_FARTHEST_US - 1 <= us <= _FARTHEST_US else None
