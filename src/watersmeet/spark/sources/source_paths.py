"""Where the streams of a query are read from, what a path takes in, and which paths are refused for that.

Spark remembers the files it has read by their whole paths. Under another path the same files would be read
again as new ones, and those that wait in the old folder would never be read. So a path may change only to one
that takes in the old one: a pattern that names it or a folder above it, or files right inside it.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from watersmeet.errors import ConfigurationError
from watersmeet.query import Sink, Stream
from watersmeet.spark.session.connectors import FILE_FORMATS, resolve
from watersmeet.spark.sources.parquet.folder_columns import is_pattern
from watersmeet.spark.storage.paths import has_scheme, local_path

Paths = Mapping[str, str]  # by the name of the stream

_GLOB = re.compile(r"\[[^]/]*\]|[*?{},]|[^*?{},[]+|\[")
_WILD = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}


def source_paths(streams: Iterable[Stream], base: Path) -> dict[str, str]:
    """The paths of those streams that are files; `base` is the pipeline file's folder."""
    found = {}
    for stream in streams:
        if stream.source is not None and stream.source.format.lower() in FILE_FORMATS:
            options = {key.lower(): value for key, value in resolve(stream.source, base).items()}
            if (path := options.get("path")) is not None:
                found[stream.name.lower()] = str(local_path(path) or path.rstrip("/"))
    return found


def refuse_own_answers(streams: Iterable[Stream], sink: Sink | None, base: Path) -> None:
    """Refuses a query whose answers would come back to it as tuples of a stream that it reads.

    A folder may have several names: symbolic links and `..` are followed.
    """
    if sink is None or sink.connector.format.lower() not in FILE_FORMATS:
        return
    options = {key.lower(): value for key, value in resolve(sink.connector, base).items()}
    written = options.get("path", "")
    target = str(local_path(written) or written.rstrip("/"))
    for name, path in source_paths(streams, base).items():
        if target and _is_at_or_below(real_path(target), real_path(path)):
            raise ConfigurationError(
                f"sink {sink.name} writes to {target}, where stream {name} reads ({path}): the answers would "
                "come back as tuples. Name another folder"
            )


def real_path(path: str) -> str:
    """A path on this disk, or a pattern up to its first wildcard, without symbolic links and `..`.

    Spark takes `..` out of the text before it follows any link, and so does this.
    """
    if has_scheme(path):
        return path
    parts = os.path.normpath(path).split("/")
    fixed = list(itertools.takewhile(lambda part: not is_pattern(part), parts))
    return os.path.join(os.path.realpath("/".join(fixed) or "/"), *parts[len(fixed) :])


def describe_moved(before: Paths, now: Paths) -> str:
    """Why streams cannot be read from where they are now, in words; empty if they can."""
    for name, path in now.items():
        if name in before and not takes_in(path, before[name]):
            return (
                f"stream {name}: the checkpoint has read {before[name]}, but now reads {path}. What was "
                "read would be read again, and what waits in the old folder never would. Put the old path "
                "back, or write a pattern that names the old folder and the new one, or start anew with "
                "another checkpoint"
            )
    return ""


def takes_in(path: str, old: str) -> bool:
    """Whether a path, which may be a pattern, names the files that were read at an old one.

    >>> [takes_in(path, "/data/in") for path in ("/data/*in", "/data/in/*.json", "/data", "/{data,more}/in")]
    [True, True, True, True]
    >>> [takes_in(path, "/data/in") for path in ("/data/in2", "/data/in/more/*", "/x,/data/in", "/{x}/in")]
    [False, False, False, False]
    """
    inside, slash, _ = path.rpartition("/")
    return _is_at_or_below(old, path) or bool(slash and _matches(inside, old))


def _is_at_or_below(folder: str, path: str) -> bool:
    """Whether a path, which may be a pattern, names a folder or one above it."""
    above = [folder[: slash.start()] for slash in re.finditer("/", folder)]
    return path == folder or any(_matches(path, each) for each in (folder, *above))


def _matches(pattern: str, path: str) -> bool:
    """Whether a pattern of Hadoop's names a path."""
    parts, depth = [], 0
    for part in _GLOB.findall(pattern):
        if part.startswith("[") and part.endswith("]"):
            parts.append(part.replace("[!", "[^"))
            continue
        depth += (part == "{") - (part == "}")
        is_wild = part in _WILD and (part != "," or depth > 0)
        parts.append(_WILD[part] if is_wild else re.escape(part))
    try:
        return re.fullmatch("".join(parts), path) is not None
    except re.error:  # braces that do not match, which Spark will refuse
        return False
