"""A text as Spark reads it off a statement: what its backslashes stand for."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"""(?s)'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_RAW = re.compile(r"""(?s)[rR](?:'([^']*)'|"([^"]*)")""")
_ESCAPE = re.compile(r"(?s)\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)")
_NAMED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def read_text(written: str) -> str | None:
    """The text between quotes; None if what is written is not one such text.

    >>> read_text(r"'a\\\\d'"), read_text(r"r'a\\d'"), read_text("a.b")
    ('a\\\\d', 'a\\\\d', None)
    """
    if (raw := _RAW.fullmatch(written)) is not None:
        return raw[1] if raw[1] is not None else raw[2]
    if (plain := _PLAIN.fullmatch(written)) is not None:
        return _ESCAPE.sub(_unescape, plain[1] if plain[1] is not None else plain[2])
    return None


def _unescape(found: re.Match[str]) -> str:
    escape = found[1]
    if escape[0] in "uU" and len(escape) > 1:
        return chr(min(int(escape[1:], 16), 0x10FFFF))
    if len(escape) == 3:
        return chr(int(escape, 8))
    return _NAMED.get(escape, escape)
