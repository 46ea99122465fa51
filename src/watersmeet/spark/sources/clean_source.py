"""Refuses `cleanSource` where a second source reads the same files.

Spark's file source takes a file away as soon as its own query has committed the batch with that file. Another
query may not have read it yet, and would neither read it nor report that it is gone. So files that one source
cleans must be read by that source alone. A query has one source for each stream it reads; a shared dataflow
has one for each declared stream, whatever its queries.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from watersmeet.errors import ConfigurationError
from watersmeet.query import Stream
from watersmeet.spark.session.connectors import FILE_FORMATS, resolve
from watersmeet.spark.sources.parquet.folder_columns import is_pattern
from watersmeet.spark.sources.source_paths import real_path
from watersmeet.spark.storage.paths import local_path

CLEAN = "cleanSource"


@dataclass(frozen=True)
class _FileSource:
    """A source of files, and which query has it."""

    query: str
    stream: Stream
    folder: str  # up to the first part that is a pattern, without symbolic links

    @property
    def cleans(self) -> str:
        """What it does with files that are read, nothing if they stay."""
        assert self.stream.source is not None
        how = (self.stream.source.option(CLEAN) or "off").lower()
        return "" if how == "off" else how

    def overlaps(self, other: _FileSource) -> bool:
        """Whether some file may be in both; patterns are not compared with each other."""
        return f"{self.folder}/".startswith(f"{other.folder}/") or f"{other.folder}/".startswith(
            f"{self.folder}/"
        )


def refuse_shared_cleaning(readers: Mapping[str, Iterable[Stream]], base: Path) -> None:
    """Refuses streams that clean files which another source reads; `readers` are streams by query."""
    sources = [
        _FileSource(query, stream, folder)
        for query, streams in readers.items()
        for stream in {stream.name: stream for stream in streams}.values()
        if (folder := _folder(stream, base)) is not None
    ]
    for one, other in itertools.permutations(sources, 2):
        if one.cleans and one.overlaps(other):
            raise ConfigurationError(_refusal(one, other))


def refuse_cleaning_beside(name: str, streams: Iterable[Stream], base: Path) -> None:
    """Refuses a query that reads by itself what a shared dataflow takes away once it has read it."""
    for stream in streams:
        folder = _folder(stream, base)
        if folder is not None and (how := _FileSource(name, stream, folder).cleans):
            raise ConfigurationError(
                f"query {name} would run beside the shared dataflow, and stream {stream.name} has "
                f"{CLEAN} = '{how}': the dataflow takes files away once it has read them, whether or not the "
                "query has. Create a dataflow of a file that leaves it out, and remove files yourself"
            )


def _refusal(one: _FileSource, other: _FileSource) -> str:
    if one.stream.name == other.stream.name:
        who = f"the queries {one.query} and {other.query} both read it"
    else:
        who = f"stream {other.stream.name} reads the same files"
    return (
        f"stream {one.stream.name} has {CLEAN} = '{one.cleans}', and {who}. Each source takes files away "
        "once it has read them, whether or not the other has, so tuples would be lost. Leave it out and "
        "remove files yourself, or declare one stream for the files and run the queries as a shared dataflow "
        "(watersmeet serve), which reads each stream once"
    )


def _folder(stream: Stream, base: Path) -> str | None:
    """Where the files of a stream are, if it has files."""
    source = stream.source
    if source is None or source.format.lower() not in FILE_FORMATS:
        return None
    path = next(
        (
            value
            for key, value in resolve(source, base, f"stream {stream.name}").items()
            if key.lower() == "path"
        ),
        None,
    )
    if path is None:
        return None
    real = os.path.normpath(real_path(str(local_path(path) or path)))
    return "/".join(itertools.takewhile(lambda part: not is_pattern(part), real.split("/")))
