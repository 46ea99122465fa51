"""What queries are called: the name that was written for them, or one made for them.

Every name comes from here: those of a pipeline file that is run or served, of queries that are submitted to a
server, and of those that a session is given as a list. A query that is run keeps its state under its name, so
there the name never depends on the other queries of the file: it is the written one, else that of the sink.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.sql.syntax.refuse import Source
from watersmeet.sql.syntax.split import Written, split_statements

MAX_LENGTH = 64
CONSOLE = "console"
NAME_IT = "Name it by a line before it: -- name: some-name"
RESERVED = "dead-letters-"  # what else lies beside the parts of queries in a checkpoint
RESERVED_END = (".json", ".lock")
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


def number_queries(count: int, prefix: str = "q") -> tuple[str, ...]:
    """Names for so many queries, made from their numbers: q1, q2 and so on."""
    return tuple(f"{prefix}{number}" for number in range(1, count + 1))


def _check_names(names: Iterable[str], refuse: Refuse) -> None:
    """Refuses what cannot be a name, and equal names."""
    taken: set[str] = set()
    for index, name in enumerate(names):
        try:
            check_name(name)
        except ConfigurationError as error:
            raise refuse(index, str(error)) from None
        if name.lower() in taken:
            raise refuse(index, f"two queries are called {name}")
        taken.add(name.lower())


def name_statements(source: Source, statements: Iterable[Written], prefix: str = "q") -> dict[str, Written]:
    """Statements of a file by name: that of the comment before each, else the prefix and its number."""
    found = tuple(statements)
    numbered = number_queries(len(found), prefix)
    names = [n if each.name is None else each.name for n, each in zip(numbered, found, strict=True)]
    _check_names(names, _refuse_in(source, found, NAME_IT))
    return dict(zip(names, found, strict=True))


def name_run_queries(source: Source, sinks: Sequence[str | None]) -> tuple[str, ...]:
    """The names of a pipeline file's queries where each runs by itself; `sinks` are those they write into.

    A query is called what the comment before it says, else as its sink, with _ for spaces, else console.
    """
    found = tuple(each for each in split_statements(source) if not each.declares)
    names = [
        each.name or (sink or CONSOLE).replace(" ", "_") for each, sink in zip(found, sinks, strict=True)
    ]
    refuse = _refuse_in(source, found, f"Each keeps its state under its name. {NAME_IT}")
    _check_names(names, refuse)
    for index, name in enumerate(names):
        if name.lower().startswith(RESERVED) or name.lower().endswith(RESERVED_END):
            raise refuse(index, f"{name} cannot name a query: the checkpoint has files of its own called so")
    return tuple(names)


def check_answer_streams(names: Iterable[str], queries: Iterable[str]) -> None:
    """Refuses names of streams of answers under which their queries could not keep their state."""
    taken = {name.lower() for name in queries}
    for name in names:
        try:
            check_name(name)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"stream {name} is the answers of a query that has its name: {error}"
            ) from None
        if name.lower().startswith(RESERVED) or name.lower().endswith(RESERVED_END):
            raise ConfigurationError(
                f"stream {name}: the checkpoint has files of its own called so. Rename it"
            )
        if name.lower() in taken:
            raise ConfigurationError(
                f"the query of stream {name} and another one would keep their state under the same name. "
                f"{NAME_IT} that is another"
            )


def _refuse_in(source: Source, statements: Sequence[Written], advice: str) -> Refuse:
    return lambda index, problem: source.refuse(problem, statements[index].span, advice)
