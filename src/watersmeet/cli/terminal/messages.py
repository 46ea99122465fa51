"""Messages of the commands: for people on standard error, for programs as lines of JSON on the output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.query import Column


def tell(message: str) -> None:
    """A line for a person, kept out of the output that a program may read."""
    _console().print(Text(message))


def tell_error(error: Exception | str) -> None:
    """An error message, printed verbatim: the carets under a SQL text must keep their columns."""
    _console().print(Text.assemble(("error: ", "bold red"), str(error)))


def tell_event(wanted: bool, event: str, **facts: Any) -> None:
    """An event as a line of JSON on the output, where that is wanted."""
    if wanted:
        print(json.dumps({"event": event, **facts}), flush=True)


def tell_inferred(wanted: bool, inferred: Mapping[str, Sequence[Column]]) -> None:
    """The columns that were inferred for streams that declare none."""
    for stream, columns in inferred.items():
        named = ", ".join(column.pretty() for column in columns)
        tell_event(wanted, "inferred", stream=stream, columns=named)
        tell(f"stream {stream} has, by the data there now, the columns: {named}")


def tell_failure(wanted: bool, error: WatersmeetError, log: Path) -> int:
    """Reports why a run has failed; returns the exit code."""
    tell_event(wanted, "failed", message=str(error), log=str(log))
    tell_error(f"{error}\nSpark's own messages are in {log}")
    return 2 if isinstance(error, ConfigurationError) else 1


def waiting(message: str) -> AbstractContextManager[object]:
    """While open, a terminal shows that something is under way."""
    console = _console()
    return console.status(message) if console.is_terminal else nullcontext()


def _console() -> Console:
    # A new one each time, as standard error may be another stream by now than at the start.
    return Console(stderr=True, soft_wrap=True, highlight=False)
