"""How long a regular expression takes at worst, in Java's matcher that tries one way after another.

A text of n characters takes about `choices` times n to the `power` steps, or there is no such number. Loops
that can take the same characters are tried in all ways to share these out, so each adds to the power. A loop
in a loop has as many ways as there are subsets. What is not understood, such as references back and looking
ahead, counts as without a bound.

    ^[a-z]+=[0-9]+$    power 1: `=` ends the first loop
    x*y                power 2: from each x the loop runs to the last one, and finds no y
    .*a.*b             power 3
    (x+)+y             none
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from string import ascii_letters, digits

MOST_CHOICES = 10_000
_MOST_WAYS = 64  # of alternatives through a pattern
_ALL = (1 << 129) - 1  # one bit for each ASCII character, and one for all others
_CLASSES = {"d": digits, "s": " \t\n\x0b\f\r", "w": f"_{digits}{ascii_letters}"}
_EMPTY = frozenset("bBAzZ")  # escapes that match no character
_CONTROLS = frozenset("tnrfae")
_LITERAL = frozenset("\\.[]{}()*+-?^$|/\"'`~!@#%&=:;,<> _")
_FLAGS = frozenset("imsu")


class _NotBoundedError(Exception):
    """The pattern is not understood, or may take for ever."""


@dataclass(frozen=True)
class Difficulty:
    """A text of n characters takes about choices * n ** power steps."""

    power: int
    choices: int = 1

    def steps(self, length: float) -> float:
        return float(self.choices) * max(length, 1.0) ** self.power


@dataclass(frozen=True)
class _Item:
    """What matches characters of a set, once or in a loop."""

    characters: int
    least: int = 1
    most: int | None = 1  # None: any number

    @property
    def is_loop(self) -> bool:
        return self.most is None


_NOWHERE = _Item(_ALL, 0, 0)  # a place between characters, which ends no loop
_Way = tuple[_Item, ...]  # one way through the alternatives of a pattern


def difficulty_of(pattern: str) -> Difficulty | None:
    """That of a pattern which is looked for anywhere in a text."""
    try:
        parser = _Parser(pattern)
        ways = parser.alternatives()
        if parser.rest:
            raise _NotBoundedError
    except (_NotBoundedError, IndexError, ValueError):
        return None
    starts = 0 if pattern.startswith(("^", "\\A")) and "|" not in pattern else 1
    powers = [_longest_chain(way) for way in ways]
    choices = max(1, sum(_choices(way) for way in ways))
    if choices > MOST_CHOICES:
        return None
    return Difficulty(max(max(powers, default=0) + starts, 1), choices)


def difficulty_of_like(pattern: str) -> Difficulty:
    """That of a pattern of LIKE, whose % are loops."""
    return Difficulty(max(pattern.rstrip("%").count("%"), 1))


def _choices(way: _Way) -> int:
    count = 1
    for item in way:
        count *= 1 if item.most is None else item.most - item.least + 1
    return count


def _longest_chain(way: _Way) -> int:
    """How many loops of a way can take each other's characters; one that nothing follows cannot fail."""
    longest: dict[int, int] = {}
    for index, item in enumerate(way):
        if item.is_loop and index < len(way) - 1:
            before = [longest[other] for other in longest if _share(way, other, index)]
            longest[index] = 1 + max(before, default=0)
    return max(longest.values(), default=0)


def _share(way: _Way, first: int, second: int) -> bool:
    """Whether nothing stands between two loops that keeps the first from running into the second."""
    characters = way[first].characters
    between = way[first + 1 : second]
    ends = any(item.least and not item.characters & characters for item in between)
    return not ends and bool(characters & way[second].characters)


@dataclass
class _Parser:
    text: str
    at: int = 0

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def alternatives(self) -> list[_Way]:
        """All ways up to the end of the group or the pattern."""
        ways = self._sequence()
        while self.rest.startswith("|"):
            self.at += 1
            ways += self._sequence()
        if len(ways) > _MOST_WAYS:
            raise _NotBoundedError
        return ways

    def _sequence(self) -> list[_Way]:
        ways: list[_Way] = [()]
        while self.rest and self.rest[0] not in "|)":
            found = self._quantified()
            ways = [before + after for before, after in product(ways, found)]
            if len(ways) > _MOST_WAYS:
                raise _NotBoundedError
        return ways

    def _quantified(self) -> list[_Way]:
        is_group = self.rest.startswith("(")
        ways = self._group() if is_group else self._atom()
        least, most = self._quantifier()
        if (least, most) == (1, 1):
            return ways
        if not is_group:
            return [tuple(replace(item, least=least, most=most) for item in way) for way in ways]
        if (least, most) == (0, 1):
            return [(), *ways]
        if least == most and most is not None and len(ways) == 1 and most <= _MOST_WAYS:
            return [ways[0] * most]
        return [(replace(_repeatable(ways), least=least, most=most),)]

    def _group(self) -> list[_Way]:
        self.at += 1
        if self.rest.startswith("?"):
            self._read_kind()
            if self.text[self.at - 1] == ")":
                return [()]
        ways = self.alternatives()
        if self.text[self.at] != ")":
            raise _NotBoundedError
        self.at += 1
        return ways

    def _read_kind(self) -> None:
        """After the question mark: flags, a name, or nothing."""
        end = self.at + 1
        while self.text[end] in _FLAGS:
            end += 1
        if self.text[end] == "<" and end == self.at + 1 and self.text[end + 1].isalpha():
            end = self.text.index(">", end)
        elif self.text[end] not in ":)":
            raise _NotBoundedError
        self.at = end + 1

    def _quantifier(self) -> tuple[int, int | None]:
        found: tuple[int, int | None]
        mark = self.rest[:1]
        if mark in ("*", "+", "?") and mark:
            found = {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
            self.at += 1
        elif mark == "{":
            end = self.text.index("}", self.at)
            least, comma, most = self.text[self.at + 1 : end].partition(",")
            found = (int(least), None if comma and not most else int(most or least))
            self.at = end + 1
        else:
            return (1, 1)
        if self.rest[:1] in ("?", "+"):
            self.at += 1
        if self.rest[:1] in ("*", "{"):
            raise _NotBoundedError
        return found

    def _atom(self) -> list[_Way]:
        mark = self.text[self.at]
        self.at += 1
        if mark in "^$":
            return [(_NOWHERE,)]
        if mark == "[":
            return [(_Item(self._class()),)]
        if mark == "\\":
            escape = self.text[self.at]
            self.at += 1
            return [(_NOWHERE,)] if escape in _EMPTY else [(_Item(_escaped(escape)),)]
        if mark in "*+?{":
            raise _NotBoundedError
        return [(_Item(_ALL if mark == "." else _fold(_bits(mark))),)]

    def _class(self) -> int:
        """The characters of a class, or more of them."""
        is_negated = self.rest.startswith("^")
        self.at += is_negated
        start, found = self.at, 0
        while self.text[self.at] != "]" or self.at == start:
            first = self._member()
            if self.rest.startswith("-") and self.text[self.at + 1] != "]":
                self.at += 1
                found |= _between(first, self._member())
            else:
                found |= first
        self.at += 1
        return _ALL & ~found | 1 << 128 if is_negated else _fold(found)

    def _member(self) -> int:
        mark = self.text[self.at]
        self.at += 1
        if mark in "[&":
            raise _NotBoundedError
        if mark != "\\":
            return _bits(mark)
        self.at += 1
        return _escaped(self.text[self.at - 1])


def _repeatable(ways: list[_Way]) -> _Item:
    """What a group in a loop may be: fixed texts that differ in their first character, so one way at most."""
    firsts, union = 0, 0
    for way in ways:
        if not way or any((item.least, item.most) != (1, 1) for item in way):
            raise _NotBoundedError
        if firsts & way[0].characters:
            raise _NotBoundedError
        firsts |= way[0].characters
        for item in way:
            union |= item.characters
    return _Item(union)


def _escaped(escape: str) -> int:
    if escape.lower() in _CLASSES:
        found = _bits(_CLASSES[escape.lower()])
        return found if escape.islower() else _ALL & ~found
    if escape in _LITERAL or escape in _CONTROLS:
        return _bits({"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}.get(escape, escape))
    raise _NotBoundedError


def _bits(characters: str) -> int:
    """A set of characters."""
    return sum({1 << min(ord(each), 128) for each in characters})


def _between(first: int, last: int) -> int:
    """All characters from one to another."""
    if first.bit_count() != 1 or last.bit_count() != 1:
        raise _NotBoundedError
    return (last << 1) - first if last >= first else 0


def _fold(characters: int) -> int:
    """With the other case of each letter, since a flag may make them the same."""
    letters = (1 << 26) - 1
    upper, lower = characters >> ord("A") & letters, characters >> ord("a") & letters
    return characters | (upper << ord("a")) | (lower << ord("A"))
