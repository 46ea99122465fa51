"""The text of a window, `[RANGE 10 MINUTES]`, and of EMIT EVERY, read into sizes.

RANGE 10 MINUTES   RANGE '10 minutes'   RANGE INTERVAL 10 MINUTES   range 10 min   RANGE 1 min 30 s
TUMBLE 10 MINUTES  TUMBLE 100 ROWS      ROWS 100                    UNBOUNDED      RANGE UNBOUNDED
PARTITION BY k, j ROWS 1
"""

from __future__ import annotations

import re

from watersmeet.errors import Span, SqlError
from watersmeet.query import (
    UNBOUNDED,
    Window,
    last_of_each,
    parse_duration,
    range_us,
    rows,
    tumble_rows,
    tumble_us,
)
from watersmeet.query.duration import unit_us
from watersmeet.sql.syntax.refuse import Source, nearest

LONGEST = 2**62  # a microsecond count, or a row count, that leaves room to add a ts to it

UNIT_NAMES = (
    "ms", "milliseconds", "s", "sec", "seconds", "min", "minutes", "h", "hours", "d", "days", "rows",
)  # fmt: skip

_EXAMPLES = "Write [RANGE 10 MINUTES], [TUMBLE 10 MINUTES], [ROWS 100], [TUMBLE 100 ROWS] or [UNBOUNDED]."
_PARTITIONED = "For the last tuple of each value write [PARTITION BY column ROWS 1]."
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION")
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_ROW_COUNT = re.compile(r"(?P<count>[-+]?[\d._]+)\s*rows?", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d]+")
_COLUMN = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)"
_PARTITION = re.compile(
    rf"PARTITION BY\s*(?P<columns>{_COLUMN}(?:\s*,\s*{_COLUMN})*)\s*\bROWS\b\s*(?P<size>.*)", re.IGNORECASE
)


def read_window(source: Source, span: Span) -> Window:
    """The window written in a span, brackets included; refuses what is not one."""
    text = _plain(source.slice(span)[1:-1])
    kind, _, size = text.partition(" ")
    unbounded = size.upper() in ("UNBOUNDED", "UNBOUNDED PRECEDING")
    match kind.upper():
        case "UNBOUNDED" if not size:
            return UNBOUNDED
        case "RANGE" | "ROWS" if unbounded:
            return UNBOUNDED
        case "RANGE":
            _refuse_rows(source, span, size, "RANGE is a window of time", f"[ROWS {_count_in(size)}]")
            return range_us(read_duration(source, span, size, "a window"))
        case "TUMBLE" if _ROW_COUNT.fullmatch(size):
            return tumble_rows(_read_count(source, span, _count_in(size)))
        case "TUMBLE":
            return tumble_us(read_duration(source, span, size, "a window"))
        case "ROWS":
            return rows(_read_count(source, span, _count_in(size)))
        case "PARTITION":
            return _read_partition(source, span, text)
    close = nearest(kind, ("RANGE", "TUMBLE", "ROWS", "PARTITION", "UNBOUNDED"))
    hint = f"Did you mean {close}? " if close else ""
    raise source.refuse(f"'{text}' is not a window", span, hint + _EXAMPLES)


def _read_partition(source: Source, span: Span, text: str) -> Window:
    """PARTITION BY and what follows; whether the stream has such columns is for others to say."""
    found = _PARTITION.fullmatch(text)
    if found is None:
        instead = (
            "columns and a number of rows" if "." not in text else "plain names of the stream's own columns"
        )
        raise source.refuse(f"PARTITION BY takes {instead}", span, _PARTITIONED)
    names = [_unquoted(name) for name in re.findall(_COLUMN, found["columns"])]
    return last_of_each(names, _read_count(source, span, _count_in(found["size"])))


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def read_emit(source: Source, span: Span) -> int | None:
    """The tick of an EMIT EVERY clause, in microseconds; None for EMIT AT END."""
    _emit, kind, *duration = _plain(source.slice(span)).split(" ")
    if kind.upper() == "AT":
        if len(duration) > 1:
            raise source.refuse("EMIT AT END comes last", span, "Put it at the end of the statement.")
        return None
    if any(word.upper() in _CLAUSES for word in duration):
        raise source.refuse("EMIT EVERY comes last", span, "Put it at the end of the statement.")
    return read_duration(source, span, " ".join(duration), "EMIT EVERY")


def read_duration(source: Source, span: Span, text: str, what: str) -> int:
    """The microseconds of a positive duration, quoted or not, with or without INTERVAL."""
    bare = re.sub(r"^interval\b", "", text, flags=re.IGNORECASE).strip()
    bare = re.sub(r"""(['"])([^'"]*)\1""", r"\2", bare).strip()
    if bare.startswith("-"):
        raise source.refuse(f"{what} cannot be negative", span, "Write a positive duration: 10 MINUTES.")
    try:
        duration_us = parse_duration(bare)
    except (ValueError, ArithmeticError) as error:
        raise _not_a_duration(source, span, bare, str(error)) from None
    if duration_us == 0:
        raise source.refuse(f"{what} cannot be zero", span, "Write a positive duration: 10 MINUTES.")
    return within_reach(source, span, duration_us)


def within_reach(source: Source, span: Span, size: int) -> int:
    """The size itself; refuses one that arithmetic on 64-bit times could not bear."""
    if size > LONGEST:
        raise source.refuse(
            "this is longer than time can be counted", span, "For no bound write [UNBOUNDED]."
        )
    return size


def _not_a_duration(source: Source, span: Span, text: str, reason: str) -> SqlError:
    if re.fullmatch(r"[\d.]+", text):
        return source.refuse(f"'{text}' has no unit", span, f"Write a unit of time: {text} MINUTES.")
    for word in _WORD.findall(text):
        if unit_us(word) is None:
            close = nearest(word, UNIT_NAMES) if not word.lower().startswith(("month", "year")) else None
            hint = f"Did you mean {close}? " if close else ""
            return source.refuse(
                f"'{word}' is not a unit of time", span, f"{hint}Units: ms, seconds, minutes, hours, days."
            )
    advice = "Write a number and a unit: 10 MINUTES, 500 ms, 1 min 30 s."
    return source.refuse(reason.split(":")[0] if text else "a duration is missing", span, advice)


def _refuse_rows(source: Source, span: Span, size: str, problem: str, instead: str) -> None:
    if _ROW_COUNT.fullmatch(size):
        raise source.refuse(problem, span, f"To count tuples write {instead}.")


def _count_in(size: str) -> str:
    return re.sub(r"\s*rows?$", "", size, flags=re.IGNORECASE).strip()


def _read_count(source: Source, span: Span, text: str) -> int:
    if re.fullmatch(r"\+?\d+", text):
        count = within_reach(source, span, int(text[:40]))
        if count == 0:
            raise source.refuse("a window cannot be zero rows long", span, "Write at least [ROWS 1].")
        return count
    if re.fullmatch(r"-\d+(\.\d*)?", text):
        raise source.refuse(
            "a window cannot be negative", span, "Write a positive number of rows: [ROWS 100]."
        )
    if re.fullmatch(r"\d*\.\d*|\d+e\d+", text, re.IGNORECASE):
        raise source.refuse(
            "a number of rows is a whole number", span, "Write a whole number of rows: [ROWS 100]."
        )
    if re.match(r"\d", text):
        raise source.refuse("ROWS counts tuples, not time", span, "For time write [RANGE 10 MINUTES].")
    raise source.refuse(f"'{text}' is not a number of rows", span, _EXAMPLES)


def _plain(text: str) -> str:
    """The text on one line, comments left out."""
    return " ".join(_COMMENT.sub(" ", text).split())
