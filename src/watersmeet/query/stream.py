"""A declared stream: its columns, its event time, and where its tuples come from."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING

from watersmeet.query.duration import format_duration
from watersmeet.query.secret_reference import fill_in, has_reference

if TYPE_CHECKING:
    from watersmeet.query.declared.event_time import ComputedTime
    from watersmeet.query.declared.table import Table
    from watersmeet.query.declared.view import Branch
    from watersmeet.query.query import Query

DAY_US = 86_400_000_000
NO_LIMIT = "none"  # a max_ahead that refuses nothing


@dataclass(frozen=True)
class Column:
    """A column and its type, written as Spark writes it: `array<string>`, `decimal(10,2)`."""

    name: str
    type: str

    def pretty(self) -> str:
        return f"{self.name} {self.type}"


_SECRET_NAME = re.compile(
    r"passw|secret|token|jaas|credential|passphrase|(?:access|api|account)[._-]?key", re.I
)
_SECRET_INSIDE = re.compile(r"((?:passw\w*|secret\w*|token)\s*=\s*)[^&;\s]+|(?<=://)[^/@\s]+@", re.I)


def is_secret_name(key: str) -> bool:
    """Whether an option or a setting of this name is taken for a secret."""
    return _SECRET_NAME.search(key) is not None


def _redacted(key: str, value: str) -> str:
    """An option's value without what it keeps secret, by its name or inside it."""
    if has_reference(value):
        return value
    if is_secret_name(key):
        return "***"
    return _SECRET_INSIDE.sub(lambda found: f"{found[1] or ''}***{'' if found[1] else '@'}", value)


@dataclass(frozen=True)
class Connector:
    """A Spark source or sink: its format and its options, in the order they were written."""

    format: str
    options: tuple[tuple[str, str], ...] = ()
    lines: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)  # where options stand

    def option(self, name: str) -> str | None:
        """An option's value by its name, whatever its case."""
        return {key.lower(): value for key, value in self.options}.get(name.lower())

    def filled_in(self, what: str) -> dict[str, str]:
        """The options with secrets in place of references; `what` names the stream or sink."""
        lines = dict(self.lines)

        def place(key: str) -> str:
            return f"{what}, option {key}{f' (line {lines[key]})' if key in lines else ''}"

        return {key: fill_in(value, place(key)) for key, value in self.options}

    def pretty(self) -> str:
        """The format and its options, what is secret left out.

        >>> Connector("kafka", (("topic", "a"), ("kafka.ssl.key.password", "x"))).pretty()
        "kafka (topic = 'a', kafka.ssl.key.password = '***')"
        """
        options = ", ".join(f"{key} = '{_redacted(key, value)}'" for key, value in self.options)
        return f"{self.format} ({options})" if options else self.format


@dataclass(frozen=True)
class Stream:
    """An append-only bag of tuples.

    Without `event_time` tuples are stamped on arrival, which a replay cannot repeat. A tuple whose event time
    is more than `max_ahead_us` ahead of the time of its micro-batch is in error: it is counted and left out.
    A `computed_time` is a column that the source does not have. A view has no source: it has branches. Nor
    has a stream whose tuples are the `answers` of a query: its event time is answer_time, and that query says
    how far it has come. So no tuple of it is ever late.
    """

    name: str
    columns: tuple[Column, ...]
    event_time: str | None = None
    _: KW_ONLY
    lateness_us: int = 0  # the papers' delta
    idle_after_us: int | None = None
    max_ahead_us: int | None = DAY_US  # None: event times may lie in any future
    site: str | None = None
    source: Connector | None = field(default=None)
    computed_time: ComputedTime | None = None
    view: tuple[Branch, ...] = ()
    table: Table | None = None  # it is no stream then
    answers: Query | None = field(default=None, repr=False)

    def with_event_time(
        self, written: str | None, unit: str | None = None, format: str | None = None
    ) -> Stream:
        """The stream with this event time, a computed one as a further column; see `find_event_time`."""
        if written is None:
            return self
        # It loads Arrow, which is slow and not needed to show a command's help.
        from watersmeet.query.declared.event_time import NAMES, EventTimeError, find_event_time

        found = find_event_time(self.columns, written, unit, format)
        if isinstance(found, str):
            return replace(self, event_time=found)
        name = next((name for name in NAMES if self.column(name) is None), None)
        if name is None:
            raise EventTimeError(
                f"the computed event time has no name: there are columns {' and '.join(NAMES)} already",
                "Rename one of them in the source, or leave it out of the declaration.",
            )
        kind = found.type if found.type == "timestamp_ntz" else "timestamp"
        columns = (*self.columns, Column(name, kind))
        return replace(self, columns=columns, event_time=name, computed_time=found)

    @property
    def as_stored(self) -> Stream:
        """The stream with only the columns that its source has."""
        if self.computed_time is None:
            return self
        columns = tuple(column for column in self.columns if column.name != self.event_time)
        return replace(self, columns=columns, computed_time=None)

    def column(self, name: str) -> Column | None:
        """A column by its name, whatever its case."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)

    def beside(self, column: str) -> tuple[str, str] | None:
        """Of a column `alias.name` of a table that FROM joins with it: the table's alias, its name there."""
        tables = self.view[0].steps[-1].tables if self.view else ()
        for table in tables:
            start = f"{table.alias}."
            if column.lower().startswith(start.lower()) and table.table.column(column[len(start) :]):
                return table.alias, column[len(start) :]
        return None

    @property
    def origins(self) -> tuple[Stream, ...]:
        """The declared streams whose tuples it has, each once: itself, unless it is a view."""
        found = {branch.stream.name: branch.stream for branch in self.view}
        return tuple(found.values()) if self.view else (self,)

    @property
    def needs_batch_time(self) -> bool:
        """Whether something about its tuples is judged by the time of the micro-batch."""
        if self.view:
            return any(stream.needs_batch_time for stream in self.origins)
        return self.idle_after_us is not None or (
            self.event_time is not None and self.max_ahead_us is not None
        )

    def pretty(self) -> str:
        columns = ", ".join(column.pretty() for column in self.columns)
        if self.table is not None:
            return f"{self.name}({columns})"
        if self.answers is not None:
            return f"{self.name}({columns}) event time {self.event_time}, the answers of a query"
        facts = [f"event time {self.event_time}" if self.event_time else "stamped on arrival"]
        if self.computed_time is not None:
            facts = [f"{facts[0]} from {self.computed_time.pretty()}"]
        if self.event_time:
            facts.append(f"lateness {format_duration(self.lateness_us)}")
            if self.max_ahead_us is None:
                facts.append("any time ahead")
            elif self.max_ahead_us != DAY_US:
                facts.append(f"at most {format_duration(self.max_ahead_us)} ahead")
        if self.idle_after_us is not None:
            facts.append(f"idle after {format_duration(self.idle_after_us)}")
        if self.site:
            facts.append(f"at {self.site}")
        return f"{self.name}({columns}) {', '.join(facts)}"


@dataclass(frozen=True)
class Sink:
    """A declared sink, the target of INSERT INTO."""

    name: str
    connector: Connector

    def pretty(self) -> str:
        return f"{self.name} ({self.connector.format})"
