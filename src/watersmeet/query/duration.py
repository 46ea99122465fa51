"""Durations as people write them ('10 min', '5 seconds', '250 ms'), kept as whole microseconds."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}

SPELLINGS = {
    "us": ("us", "microsecond", "microseconds"),
    "ms": ("ms", "msec", "msecs", "millisecond", "milliseconds", "milli", "millis"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
}

UNIT_OF_SPELLING = {spelling: unit for unit, spellings in SPELLINGS.items() for spelling in spellings}

_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def unit_us(spelling: str) -> int | None:
    """Microseconds in one unit, by any of its spellings, or None for a word that is no unit."""
    unit = UNIT_OF_SPELLING.get(spelling.lower())
    return None if unit is None else UNITS_US[unit]


def parse_duration(text: str) -> int:
    """Microseconds of '5 seconds', '1h', '1 min 30 s'; ValueError says what was not understood.

    >>> parse_duration("1 min 30 s")
    90000000
    """
    if text.strip() == "0":
        return 0
    position, total = 0, Decimal(0)
    while position < len(text):
        part = _PART.match(text, position)
        unit = unit_us(part[2]) if part else None
        if part is None or unit is None:
            raise ValueError(f"'{text}' is not a duration: write a number and a unit, such as '5 seconds'")
        total += Decimal(part[1]) * unit
        position = part.end()
    if not text.strip():
        raise ValueError("an empty duration: write a number and a unit, such as '5 seconds'")
    if total != int(total):
        raise ValueError(f"'{text}' is finer than a microsecond")
    return int(total)


def format_duration(duration_us: int) -> str:
    """The shortest exact spelling: 90000000 is '90 s', 600000000 is '10 min'."""
    for unit in ("d", "h", "min", "s", "ms"):
        if duration_us and duration_us % UNITS_US[unit] == 0:
            return f"{duration_us // UNITS_US[unit]} {unit}"
    return f"{duration_us} us" if duration_us else "0 s"
