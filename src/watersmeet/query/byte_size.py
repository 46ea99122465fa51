"""Sizes of memory as people write them ('2GB', '512 MiB', '1.5 g'), as bytes; and memory shared out."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import TypeVar

from watersmeet.errors import ConfigurationError

K = TypeVar("K", bound=Hashable)

UNITS = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("kmgt", start=1)},
}

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*((?:[kmgt]i?)?)(?:b|bytes?)?\s*", re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Bytes of '256MB', '1.5 g', '64 KiB' or '1000'; a k is a thousand, a Ki 1024. ValueError says why not.

    >>> parse_bytes("1.5 GB"), parse_bytes("64KiB")
    (1500000000, 65536)
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a size: write a number and a unit, such as 256MB or 2GiB")
    size = int(Decimal(found[1]) * UNITS[found[2].lower()])
    if size < 1:
        raise ValueError(f"'{text}' is less than a byte: write a number and a unit, such as 256MB")
    return size


def parse_bytes_of(name: str, text: str) -> int:
    """The bytes that a person asks for by an option or a setting of this name; refuses what is no size."""
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error}") from None


def format_bytes(size: float) -> str:
    """A size short enough to read at a glance, such as '1.5 MB'."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.0f} B"


def split_evenly(needs: Mapping[K, float], total: float) -> dict[K, float]:
    """Equal parts of a total, what one does not need going to the others.

    >>> split_evenly({"a": 10, "b": 50, "c": 90}, 90)
    {'a': 10, 'b': 40.0, 'c': 40.0}
    """
    given, left = dict[K, float](), max(0.0, total)
    for place, key in enumerate(sorted(needs, key=lambda key: needs[key])):
        given[key] = min(needs[key], left / (len(needs) - place))
        left -= given[key]
    return given
