"""What the commands say on standard error."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.text import Text


def tell(message: str) -> None:
    """A line for a person, kept out of the output that a program may read."""
    _console().print(Text(message))


def tell_error(error: Exception | str) -> None:
    """What went wrong, as it is: the marks under a SQL text must stay where they stand."""
    _console().print(Text.assemble(("error: ", "bold red"), str(error)))


def waiting(message: str) -> AbstractContextManager[object]:
    """While open, a terminal shows that something is under way."""
    console = _console()
    return console.status(message) if console.is_terminal else nullcontext()


def _console() -> Console:
    # A new one each time, as standard error may be another stream by now than at the start.
    return Console(stderr=True, soft_wrap=True, highlight=False)
