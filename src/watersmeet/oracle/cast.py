"""Casts between plain Python values, by the name of the Spark type: the naive evaluator's CAST."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from watersmeet.errors import WatersmeetError

_DECIMAL = re.compile(r"decimal(?:\(\s*\d+\s*(?:,\s*(\d+)\s*)?\))?")
_TRUTHS = {"true": True, "t": True, "yes": True, "y": True, "1": True}
_UNTRUTHS = {"false": False, "f": False, "no": False, "n": False, "0": False}


def cast_value(value: Any, type_name: str) -> Any:
    """The value as a Spark type would hold it; a value that already fits comes back as it is."""
    wanted = type_name.lower()
    if value is None or wanted.startswith(("array", "struct", "map")):
        return value
    if decimal := _DECIMAL.fullmatch(wanted):
        scale = Decimal(1).scaleb(-int(decimal[1] or 0))
        return _number(value, type_name).quantize(scale, ROUND_HALF_UP)
    convert = _CONVERSIONS.get(wanted)
    if not convert:
        raise WatersmeetError(f"the oracle cannot cast to {type_name}")
    return convert(value)


def _number(value: Any, type_name: str) -> Decimal:
    try:
        return Decimal(value) if isinstance(value, int | Decimal) else Decimal(str(value).strip())
    except ArithmeticError:
        raise _refusal(value, type_name) from None


def _refusal(value: Any, type_name: str) -> WatersmeetError:
    return WatersmeetError(f"cannot cast {value!r} to {type_name}, an error in Spark too")


def _to_integer(value: Any) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        raise _refusal(value, "an integer")
    return int(value) if isinstance(value, int | float | Decimal) else int(_number(value, "an integer"))


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise _refusal(value, "double") from None


def _to_boolean(value: Any) -> bool:
    if not isinstance(value, str):
        return bool(value)
    truth = {**_TRUTHS, **_UNTRUTHS}.get(value.strip().lower())
    if truth is None:
        raise _refusal(value, "boolean")
    return truth


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str | int | Decimal | date) and not isinstance(value, datetime):
        return str(value)
    raise WatersmeetError(f"the oracle cannot write a {type(value).__name__} as Spark would")


def _to_date(value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(value)


def _to_timestamp(value: Any) -> Any:
    """Event times stay the whole microseconds they are."""
    if isinstance(value, int | datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


_INTEGERS = ("tinyint", "smallint", "int", "integer", "bigint", "long", "short", "byte")

_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_INTEGERS, _to_integer),
    **dict.fromkeys(("double", "float", "real"), _to_double),
    "boolean": _to_boolean,
    **dict.fromkeys(("string", "varchar", "char"), _to_string),
    "binary": lambda value: value if isinstance(value, bytes) else str(value).encode(),
    "date": _to_date,
    **dict.fromkeys(("timestamp", "timestamp_ntz", "timestamp_ltz"), _to_timestamp),
}
