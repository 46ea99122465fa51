"""Secrets by reference: `${env:NAME}` and `${file:path}` inside the value of an option or a setting.

What is kept, compared, stored and shown is the reference. The secret itself is looked up where the option is
used, each time it is used, so that it can be changed between two runs; from then on no message shows it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from watersmeet.errors import ConfigurationError, conceal

_REFERENCE = re.compile(r"\$\{(env|file):([^{}]*)\}")
_MOST_BYTES = 1_000_000


def has_reference(text: str) -> bool:
    """Whether a value refers to a secret."""
    return _REFERENCE.search(text) is not None


def with_absolute_files(text: str, base: Path) -> str:
    """The same value, files that it refers to found from `base`.

    >>> with_absolute_files("${file:key.txt}", Path("/flows"))
    '${file:/flows/key.txt}'
    """

    def absolute(found: re.Match[str]) -> str:
        kind, name = found[1], found[2].strip()
        if kind == "file" and name:
            name = str((base / Path(name).expanduser()).absolute())
        return f"${{{kind}:{name}}}"

    return _REFERENCE.sub(absolute, text)


def fill_in(text: str, what: str) -> str:
    """A value with its secrets in place; `what` names the option to whoever lacks one."""
    return _REFERENCE.sub(lambda found: _look_up(found[1], found[2].strip(), what), text)


def _look_up(kind: str, name: str, what: str) -> str:
    if not name:
        raise ConfigurationError(f"{what}: ${{{kind}:}} names nothing")
    secret = _from_file(name, what) if kind == "file" else os.environ.get(name)
    if secret is None:
        raise ConfigurationError(f"{what}: there is no environment variable {name}. Set it, and start again")
    conceal(secret)
    return secret


def _from_file(name: str, what: str) -> str:
    try:
        with Path(name).open("rb") as file:
            found = file.read(_MOST_BYTES + 1)
        if len(found) > _MOST_BYTES:
            raise ConfigurationError(f"{what}: the file {name} is too long for a secret")
        return found.decode("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ConfigurationError(f"{what}: the file {name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{what}: the file {name} is not UTF-8 text") from None
