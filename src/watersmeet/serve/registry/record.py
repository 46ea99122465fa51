"""`ring.json`: all that a ring is, in one file that is written whole.

The requests that were handled are in it beside the queries they brought: whoever reads the file after a crash
sees a change and that it was made, or neither.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.plan.state_format import STATE_FORMAT, describe_other_format
from watersmeet.query import NEVER, Column, Pipeline, Query, Stream
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.query.shared_dataflow_json import dataflow_from_json, dataflow_to_json
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.sql import Statements, StreamDeclaration, bind_select, parse_statements
from watersmeet.sql.syntax.refuse import Source

RECORD = "ring.json"
FORMAT = 1  # raised when a file written by an older version can no longer be read


@dataclass(frozen=True)
class Registration:
    """A query of a ring. It sees tuples of the micro-batches from `since` to before `until`."""

    name: str
    number: int  # never given again
    sql: str  # one statement: SELECT, or INSERT INTO ... SELECT
    sink: str | None
    since: int
    until: int = NEVER

    @property
    def stays(self) -> bool:
        """Whether nobody has dropped it."""
        return self.until == NEVER


@dataclass(frozen=True)
class RegistryRecord:
    """What `ring.json` says."""

    id: str
    file: str  # the pipeline file it was made from; relative paths start at its folder
    declarations: str  # the CREATE statements of that file
    levels: int
    partitions: int
    checkpoint: str
    columns: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)  # of streams that declare none
    next_number: int = 1
    queries: tuple[Registration, ...] = ()
    handled: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # replies, by request
    dataflow: SharedDataflow | None = None

    @property
    def staying(self) -> dict[str, Registration]:
        """The queries that nobody has dropped, by name."""
        return {query.name: query for query in self.queries if query.stays}

    @cached_property
    def pipeline(self) -> Pipeline:
        """The streams and sinks that are declared."""
        declared = self.statements
        return Pipeline(tuple(self._complete(each) for each in declared.declarations), declared.sinks)

    @cached_property
    def statements(self) -> Statements:
        return parse_statements(self.declarations, self.file)

    def _complete(self, declaration: StreamDeclaration) -> Stream:
        if declaration.stream.columns:
            return declaration.stream
        return declaration.complete(self.columns[declaration.stream.name.lower()])

    def bind(self, sql: str, name: str) -> Query:
        """The query that a statement means over the streams of the ring."""
        return bind_statement(Source(sql, name), self.pipeline)

    def without_over(self, committed: int) -> RegistryRecord:
        """The record without queries that have seen all they will, in batches that will not be done again."""
        return replace(self, queries=tuple(query for query in self.queries if query.until > committed + 1))

    def to_json(self) -> str:
        columns = {
            name: [[column.name, column.type] for column in found] for name, found in self.columns.items()
        }
        fields = {name: getattr(self, name) for name in _PLAIN}
        queries = [asdict(query) for query in self.queries]
        dataflow = None if self.dataflow is None else dataflow_to_json(self.dataflow)
        formats = {"format": FORMAT, "state_format": STATE_FORMAT}
        document = {**formats, **fields, "columns": columns, "queries": queries, "ring": dataflow}
        return json.dumps(
            {**document, "handled": {name: dict(reply) for name, reply in self.handled.items()}}
        )


_PLAIN = ("id", "file", "declarations", "levels", "partitions", "checkpoint", "next_number")


def bind_statement(source: Source, pipeline: Pipeline) -> Query:
    """One SELECT or INSERT INTO over the streams and sinks of a pipeline; refuses anything else."""
    statements = parse_statements(source.text, source.file)
    if len(statements.selects) != 1 or statements.declarations or statements.sinks:
        raise ConfigurationError(
            f"{source.file or 'query'}: write one SELECT, or INSERT INTO a sink of the ring; its streams and "
            "sinks are declared when it is made"
        )
    catalog = {stream.name: stream for stream in pipeline.streams}
    return bind_select(statements.selects[0], catalog, pipeline.sinks)


def read_record(folder: RegistryFolder) -> RegistryRecord | None:
    """The ring of a folder; None if it has none."""
    text = folder.read(RECORD)
    if text is None:
        return None
    try:
        return _parse(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{folder.path / RECORD} is damaged, or of another version. Put it back from a copy, or serve "
            "another folder"
        ) from None


def require_record(folder: RegistryFolder) -> RegistryRecord:
    """The ring of a folder; refuses a folder without one."""
    record = read_record(folder)
    if record is None:
        raise ConfigurationError(
            f"there is no ring in {folder.path}: make one with watersmeet serve {folder.path} "
            "--streams PIPELINE.sql"
        )
    return record


def write_record(folder: RegistryFolder, record: RegistryRecord) -> None:
    """Puts a ring in place of the one before."""
    folder.write(RECORD, record.to_json())


def _parse(fields: dict[str, Any]) -> RegistryRecord:
    if fields["format"] != FORMAT:
        raise ValueError("another format")
    record = RegistryRecord(
        **{name: fields[name] for name in _PLAIN},
        columns={name: tuple(Column(*pair) for pair in found) for name, found in fields["columns"].items()},
        queries=tuple(Registration(**query) for query in fields["queries"]),
        handled=fields["handled"],
        dataflow=None if fields["ring"] is None else dataflow_from_json(fields["ring"]),
    )
    if fields.get("state_format") != STATE_FORMAT:
        written = f"state format {fields['state_format']}" if "state_format" in fields else "ring format 1"
        raise ConfigurationError(describe_other_format(written))
    return record
