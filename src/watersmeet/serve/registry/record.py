"""`dataflow.json`: all there is to know about a shared dataflow, in one file that is always written whole.

Beside the queries it holds the requests that brought them. Whoever reads the file after a crash sees a change
together with the fact that it was made, or neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from watersmeet.errors import ConfigurationError, DataError, Span
from watersmeet.plan.state_format import STATE_FORMAT, describe_other_format
from watersmeet.query import NEVER, Column, Pipeline, Query, Sink, Stream
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.query.shared_dataflow_json import dataflow_from_json, dataflow_to_json
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.requests import Reply
from watersmeet.sql import Statements, StreamDeclaration, bind_derived, bind_select, parse_statements
from watersmeet.sql.syntax.nesting import refuse_long_text
from watersmeet.sql.syntax.refuse import Source, nearest

RECORD = "dataflow.json"
OLD_RECORD = "ring.json"  # of versions whose state cannot be read any more
BESIDE = "beside"  # the folder of the checkpoints of queries beside the dataflow, by number
FORMAT = 2  # raised when a file written by an older version can no longer be read


@dataclass(frozen=True, kw_only=True)
class Outage:
    """Why a query gives no answers in the micro-batches [since, until), and when that began.

    A query that fails before the joins is `apart`: it takes no part in them, and so keeps no tuples either.
    """

    since: int
    reason: str
    at: str  # the time of day, UTC
    is_apart: bool = False
    until: int = NEVER  # the batch that it was resumed for


@dataclass(frozen=True, kw_only=True)
class Registration:
    """A query of a shared dataflow. It sees the tuples of the micro-batches [since, until).

    One that cannot share the dataflow runs `beside` it, for the reason named, as a streaming query of its own
    with batches of its own. It sees what the dataflow's batches from `since` on take, and an outage of it
    begins with a batch of its own.
    """

    name: str
    number: int  # never reused
    sql: str  # one statement: SELECT, or INSERT INTO ... SELECT
    sink: str | None
    since: int
    until: int = NEVER
    outage: Outage | None = None
    beside: str | None = None

    @property
    def stays(self) -> bool:
        """Whether nobody has dropped it."""
        return self.until == NEVER

    @property
    def failure(self) -> Outage | None:
        """What has stopped it, if nobody has resumed it."""
        return self.outage if self.outage is not None and self.outage.until == NEVER else None

    @property
    def is_joined(self) -> bool:
        """Whether it takes part in the shared joins: all do but those beside, and those that fail before."""
        return self.beside is None and (self.failure is None or not self.failure.is_apart)

    def has_ended(self, committed: int) -> bool:
        """Whether it was dropped, and no batch that it is to answer in will be repeated."""
        return not self.stays and (self.beside is not None or self.until <= committed + 1)

    def after(self, committed: int) -> Registration:
        """The query once this batch will not be repeated: an outage that is over is forgotten."""
        is_over = self.outage is not None and self.outage.until <= committed + 1
        return replace(self, outage=None) if is_over else self


@dataclass(frozen=True, kw_only=True)
class RegistryRecord:
    """What `dataflow.json` says."""

    id: str
    file: str  # the pipeline file it was created from; relative paths start at its folder
    declarations: str  # the CREATE statements of that file
    levels: int
    partitions: int
    checkpoint: str
    columns: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)  # of streams that declare none
    next_number: int = 1
    queries: tuple[Registration, ...] = ()
    handled: Mapping[str, Reply] = field(default_factory=dict)  # by request
    dataflow: SharedDataflow | None = None

    @property
    def staying(self) -> dict[str, Registration]:
        """The queries that nobody has dropped, by name."""
        return {query.name: query for query in self.queries if query.stays}

    @property
    def failed(self) -> dict[str, Outage]:
        """What has stopped each of the queries that have failed, by name."""
        return {name: query.failure for name, query in self.staying.items() if query.failure is not None}

    @property
    def shared(self) -> tuple[Registration, ...]:
        """The queries of the dataflow itself."""
        return tuple(query for query in self.queries if query.beside is None)

    @property
    def beside(self) -> dict[int, Registration]:
        """The queries beside the dataflow that are to run, by number."""
        there = (query for query in self.queries if query.beside is not None)
        return {query.number: query for query in there if query.stays and query.failure is None}

    @cached_property
    def pipeline(self) -> Pipeline:
        """The streams, sinks, tables and views that are declared."""
        declared = self.statements
        streams = tuple(self._complete(each) for each in declared.declarations)
        views = bind_derived(declared, {each.name: each for each in (*streams, *declared.tables)})
        return Pipeline(streams, declared.sinks, views=views, tables=declared.tables)

    @property
    def catalog(self) -> dict[str, Stream]:
        """All that queries may read, by name."""
        declared = self.pipeline
        return {each.name: each for each in (*declared.streams, *declared.tables, *declared.views)}

    @property
    def statements(self) -> Statements:
        return _parse_declarations(self.declarations, self.file)

    def _complete(self, declaration: StreamDeclaration) -> Stream:
        if declaration.stream.columns:
            return declaration.stream
        return declaration.complete(self.columns[declaration.stream.name.lower()])

    def own_checkpoint(self, query: Registration) -> str:
        """The checkpoint of a query beside the dataflow."""
        return f"{self.checkpoint}/{BESIDE}/{query.number}"

    def bind(self, sql: str, name: str) -> Query:
        """The query that a statement means over the declared streams and views."""
        return bind_statement(Source(sql, name), self.catalog, self.pipeline.sinks)

    def without_ended(self, committed: int) -> RegistryRecord:
        """The record without queries and outages whose last batch is committed: it is never repeated."""
        left = (query.after(committed) for query in self.queries if not query.has_ended(committed))
        return replace(self, queries=tuple(left))

    def to_json(self) -> str:
        stored = {name: getattr(self, name) for name in (*_PLAIN, *_TYPED)}
        dataflow = None if self.dataflow is None else dataflow_to_json(self.dataflow)
        formats = {"format": FORMAT, "state_format": STATE_FORMAT}
        return msgspec.json.encode({**formats, **stored, "dataflow": dataflow}).decode()


_PLAIN = {
    "id": str, "file": str, "declarations": str, "levels": int, "partitions": int, "checkpoint": str,
    "next_number": int,
}  # fmt: skip
_TYPED: dict[str, Any] = {
    "columns": dict[str, tuple[Column, ...]],
    "queries": tuple[Registration, ...],
    "handled": dict[str, Reply],
}


@lru_cache(maxsize=8)
def _parse_declarations(text: str, file: str) -> Statements:
    # Records change with every request, what they declare never does.
    return parse_statements(text, file)


def bind_statement(source: Source, catalog: Mapping[str, Stream], sinks: Iterable[Sink]) -> Query:
    """One SELECT or INSERT INTO over the streams and sinks of a dataflow; refuses anything else."""
    refuse_long_text(source, Span(0, len(source.text)))
    statements = parse_statements(source.text, source.file)
    if len(statements.selects) != 1 or statements.declarations or statements.sinks:
        raise ConfigurationError(
            f"{source.file or 'query'}: write one SELECT, or INSERT INTO a declared sink; streams and sinks "
            "are declared when the dataflow is created"
        )
    return bind_select(statements.selects[0], catalog, sinks, shared=True)


def read_record(folder: RegistryFolder) -> RegistryRecord | None:
    """The record of a folder; None if it has none."""
    text = folder.read(RECORD)
    if text is None:
        if folder.read(OLD_RECORD) is not None:
            raise ConfigurationError(describe_other_format("ring format 1"))
        return None
    try:
        return _parse(msgspec.json.decode(text))
    except (msgspec.MsgspecError, RecursionError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{folder.path / RECORD} is damaged, or of another version. Restore it from a backup, or serve "
            "another folder"
        ) from None


def require_record(folder: RegistryFolder) -> RegistryRecord:
    """The record of a folder; refuses a folder without one."""
    record = read_record(folder)
    if record is None:
        raise ConfigurationError(
            f"there is no shared dataflow in {folder.path}: create one with watersmeet serve {folder.path} "
            "--streams PIPELINE.sql"
        )
    return record


def write_record(folder: RegistryFolder, record: RegistryRecord) -> None:
    """Replaces the record of a folder."""
    folder.write(RECORD, record.to_json())


def refuse_unknown(name: str, known: Iterable[str]) -> ConfigurationError:
    """The error for a name that no query has."""
    names = sorted(known)
    if not names:
        return ConfigurationError(f"there is no query {name}: there are no queries at all")
    close = nearest(name, names)
    few = f"there are {', '.join(names[:10])}{' and more' if len(names) > 10 else ''}"
    return ConfigurationError(f"there is no query {name}: {f'did you mean {close}?' if close else few}")


def _parse(fields: dict[str, Any]) -> RegistryRecord:
    if fields["format"] != FORMAT:
        raise ValueError("another format")
    types = {**_PLAIN, **_TYPED}
    record = RegistryRecord(
        **{name: msgspec.convert(fields[name], type_) for name, type_ in types.items()},
        dataflow=None if fields["dataflow"] is None else dataflow_from_json(fields["dataflow"]),
    )
    if fields["state_format"] != STATE_FORMAT:
        raise ConfigurationError(describe_other_format(f"state format {fields['state_format']}"))
    return record
