"""What queries of a ring may be called, and what those of a file are called."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watersmeet.errors import ConfigurationError, SqlError
from watersmeet.sql.syntax.refuse import Source, nearest
from watersmeet.sql.syntax.split import Written

MAX_LENGTH = 64
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{MAX_LENGTH - 1}}}")


def check_name(name: str) -> str:
    """A name that can be a query's; refuses any other."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"'{name}' cannot name a query: use letters, digits and - _ . after a letter, digit or _, "
            f"at most {MAX_LENGTH} in all"
        )
    return name


def refuse_unknown(name: str, known: Iterable[str]) -> ConfigurationError:
    """The error for a name that no query has."""
    names = sorted(known)
    if not names:
        return ConfigurationError(f"there is no query {name}: the ring has none")
    close = nearest(name, names)
    few = f"it has {', '.join(names[:10])}{' and more' if len(names) > 10 else ''}"
    return ConfigurationError(f"there is no query {name}: {f'did you mean {close}?' if close else few}")


def name_statements(source: Source, statements: Iterable[Written], start: str) -> dict[str, Written]:
    """Statements by name: that of the comment before each, else `start` and its number among them."""
    named: dict[str, Written] = {}
    taken: set[str] = set()
    for number, statement in enumerate(statements, start=1):
        name = f"{start}{number}" if statement.name is None else statement.name
        try:
            check_name(name)
        except ConfigurationError as error:
            raise _refuse(source, statement, str(error)) from None
        if name.lower() in taken:
            raise _refuse(source, statement, f"two queries are called {name}")
        taken.add(name.lower())
        named[name] = statement
    return named


def _refuse(source: Source, statement: Written, problem: str) -> SqlError:
    return source.refuse(problem, statement.span, "Name it by a line before it: -- name: some-name")
