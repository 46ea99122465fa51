"""What queries are called: the name that was written for them, or one made from their number.

Every name comes from here: those of a pipeline file that is run or served, of queries that are submitted to a
server, and of those that a session is given as a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.sql.syntax.refuse import Source
from watersmeet.sql.syntax.split import Written

MAX_LENGTH = 64
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{MAX_LENGTH - 1}}}")

Refuse = Callable[[int, str], WatersmeetError]  # from a query's index and what is wrong with its name


def check_name(name: str) -> str:
    """A name that a query may have; refuses any other."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"'{name}' cannot name a query: use letters, digits and - _ . after a letter, digit or _, "
            f"at most {MAX_LENGTH} in all"
        )
    return name


def choose_names(
    written: Sequence[str | None],
    prefix: str = "q",
    refuse: Refuse = lambda index, problem: ConfigurationError(problem),
) -> tuple[str, ...]:
    """The written names; a query without one gets the prefix and its number. Equal names are refused."""
    names: list[str] = []
    taken: set[str] = set()
    for index, given in enumerate(written):
        name = f"{prefix}{index + 1}" if given is None else given
        try:
            check_name(name)
        except ConfigurationError as error:
            raise refuse(index, str(error)) from None
        if name.lower() in taken:
            raise refuse(index, f"two queries are called {name}")
        taken.add(name.lower())
        names.append(name)
    return tuple(names)


def name_statements(source: Source, statements: Iterable[Written], prefix: str = "q") -> dict[str, Written]:
    """Statements of a file by name: that of the comment before each, else the prefix and its number."""
    found = tuple(statements)

    def refuse(index: int, problem: str) -> WatersmeetError:
        fix = "Name it by a line before it: -- name: some-name"
        return source.refuse(problem, found[index].span, fix)

    names = choose_names([each.name for each in found], prefix, refuse)
    return dict(zip(names, found, strict=True))


def name_run_query(number: int, sink: str | None) -> str:
    """What a query of a pipeline file is called where each runs by itself, and its part of the checkpoint."""
    return f"{number}-{sink or 'console'}"
