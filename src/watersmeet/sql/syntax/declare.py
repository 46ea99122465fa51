"""CREATE STREAM and CREATE SINK into `Stream` and `Sink`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlglot import exp

from watersmeet.errors import Span
from watersmeet.query import DAY_US, NO_LIMIT, Column, Connector, Sink, Stream, parse_duration
from watersmeet.query.declared.event_time import EventTimeError
from watersmeet.query.secret_reference import with_absolute_files
from watersmeet.sql.syntax.dialect import CreateSink, CreateStream, Setting
from watersmeet.sql.syntax.refuse import Source, nearest, span_of, suggest
from watersmeet.sql.syntax.types import spell_type
from watersmeet.sql.syntax.windows import within_reach

TIME_KEYS = ("event_time", "event_time_unit", "event_time_format")
STREAM_KEYS = (*TIME_KEYS, "lateness", "idle_after", "max_ahead", "site")
BY_EVENT_TIME = (
    "event_time_unit",
    "event_time_format",
    "lateness",
    "max_ahead",
)  # settings that are about it
DEAD_LETTERS = "dead_letters"  # an option of the source, which names a sink
STREAM_SETTINGS = ("format", *STREAM_KEYS, DEAD_LETTERS)
_OPTION = "option."
_FILE_NAME = re.compile(r"\w(?:[\w. -]*[\w.-])?")
_MOST_BYTES = 64


@dataclass(frozen=True)
class StreamDeclaration:
    """A CREATE STREAM; its stream has no columns where none were written."""

    source: Source
    stream: Stream
    span: Span
    times: Mapping[str, Setting]  # the settings that say what the event time is
    dead_letters: Setting | None = None
    site: Setting | None = None

    def complete(self, columns: Sequence[Column]) -> Stream:
        """The stream with columns found elsewhere, its event time checked against them."""
        stream = replace(self.stream, columns=tuple(columns))
        return _with_event_time(self.source, stream, self.times)


def declare_stream(source: Source, tree: CreateStream) -> StreamDeclaration:
    """The stream a CREATE STREAM declares."""
    settings = settings_of(source, tree.args.get("settings") or [])
    stream = Stream(
        name=tree.this.name,
        columns=columns_of(source, tree.expressions),
        lateness_us=duration_of(source, settings, "lateness") or 0,
        idle_after_us=duration_of(source, settings, "idle_after"),
        max_ahead_us=_max_ahead(source, settings),
        site=value_of(source, settings, "site"),
        source=connector_of(source, tree.this, settings, "stream"),
    )
    for key in [key for key in BY_EVENT_TIME if key in settings and "event_time" not in settings]:
        raise source.refuse(
            f"stream {stream.name} has {'an' if key[0] == 'e' else 'a'} {key} but no event_time",
            settings[key],
            "Without event_time tuples are stamped on arrival, so they are never late nor ahead. "
            "Add event_time = 'column'.",
        )
    times = {key: settings[key] for key in TIME_KEYS if key in settings}
    for key in times:
        value_of(source, settings, key)  # refuses an empty one
    if stream.columns:
        stream = _with_event_time(source, stream, times)
    elif "event_time" in times:
        stream = replace(stream, event_time=str(times["event_time"].args["value"]))
    return StreamDeclaration(
        source,
        stream,
        span_of(tree.this),
        times,
        dead_letters=settings.get(DEAD_LETTERS),
        site=settings.get("site"),
    )


def declare_sink(source: Source, tree: CreateSink) -> Sink:
    """The sink a CREATE SINK declares."""
    name = tree.this.name
    if not _FILE_NAME.fullmatch(name) or len(name.encode()) > _MOST_BYTES:
        raise source.refuse(
            "a sink of this name could not keep its state in a folder of that name",
            tree.this,
            f"Use letters, digits, spaces and - _ . after a letter, at most {_MOST_BYTES} in all.",
        )
    settings = settings_of(source, tree.args.get("settings") or [])
    return Sink(name, connector_of(source, tree.this, settings, "sink"))


def check_dead_letters(
    declarations: Iterable[StreamDeclaration], sinks: Sequence[Sink], filled: Iterable[str]
) -> None:
    """Refuses a stream whose dead letters have no sink, or one of those that are `filled` with answers."""
    names = [sink.name for sink in sinks]
    taken = {name.lower() for name in filled}
    for declaration in declarations:
        setting = declaration.dead_letters
        if setting is None:
            continue
        name = str(setting.args["value"])
        if name.lower() not in {known.lower() for known in names}:
            advice = f"Declare it: CREATE SINK {name} WITH (format = 'parquet', path = '...')."
            raise declaration.source.refuse(
                f"there is no sink {name} for the dead letters of {declaration.stream.name}",
                setting,
                suggest(name, names, "sink") if names else advice,
            )
        if name.lower() in taken:
            raise declaration.source.refuse(
                f"sink {name} takes answers, so it cannot take dead letters",
                setting,
                "Declare another sink for them.",
            )


def refuse_duplicates(source: Source, names: Iterable[tuple[str, Span]], kind: str) -> None:
    """Refuses a name given twice, whatever its case."""
    seen: set[str] = set()
    for name, span in names:
        if name.lower() in seen:
            raise source.refuse(
                f"{kind} {name} is declared twice",
                span,
                "Case makes no difference. Leave one out, or rename it.",
            )
        seen.add(name.lower())


def columns_of(source: Source, definitions: list[exp.ColumnDef]) -> tuple[Column, ...]:
    """The columns that a declaration lists; refuses one named twice, and types that Spark has not."""
    refuse_duplicates(source, ((item.name, span_of(item.this)) for item in definitions), "column")
    columns = []
    for definition in definitions:
        kind = definition.args["kind"]
        spelt = spell_type(kind)
        if spelt is None:
            raise source.refuse(
                f"'{source.quote(kind)}' is not a type of Spark",
                kind,
                "Such as STRING, BIGINT, DECIMAL(10,2), TIMESTAMP.",
            )
        columns.append(Column(definition.name, spelt))
    return tuple(columns)


def settings_of(source: Source, settings: list[Setting]) -> dict[str, Setting]:
    refuse_duplicates(source, ((setting.this, span_of(setting)) for setting in settings), "setting")
    known = STREAM_SETTINGS
    return {
        setting.this.lower() if setting.this.lower() in known else setting.this: setting
        for setting in settings
    }


def value_of(source: Source, settings: dict[str, Setting], key: str) -> str | None:
    setting = settings.get(key)
    if setting is None:
        return None
    value: str = setting.args["value"]
    if not value:
        raise source.refuse(f"{key} is empty", setting, f"Give it a value or leave {key} out.")
    return value


def _max_ahead(source: Source, settings: dict[str, Setting]) -> int | None:
    """How far ahead tuples may be: a day unless something is said, None for 'none'."""
    setting = settings.get("max_ahead")
    if setting is not None and str(setting.args["value"]).lower() == NO_LIMIT:
        return None
    given = duration_of(source, settings, "max_ahead")
    return DAY_US if given is None else given


def duration_of(source: Source, settings: dict[str, Setting], key: str) -> int | None:
    """What a setting says of time, in microseconds; None if it is not there."""
    value = value_of(source, settings, key)
    if value is None:
        return None
    try:
        return within_reach(source, span_of(settings[key]), parse_duration(value))
    except (ValueError, ArithmeticError):
        advice = f"Write a number and a unit: {key} = '5 seconds'."
        raise source.refuse(f"'{value}' is not a duration", settings[key], advice) from None


def connector_of(source: Source, name: exp.Expr, settings: dict[str, Setting], kind: str) -> Connector:
    format_name = value_of(source, settings, "format")
    if format_name is None:
        close = nearest("format", settings)
        raise source.refuse(
            f"{kind} {name.name} has no format",
            settings[close] if close else name,
            "Say what it is: WITH (format = 'parquet', path = '...').",
        )
    taken = {"format", *(STREAM_KEYS if kind == "stream" else ())}
    base = Path(source.file).parent
    written = [
        (key[len(_OPTION) :] if key.lower().startswith(_OPTION) else key, setting)
        for key, setting in settings.items()
        if key not in taken
    ]
    options = tuple((key, with_absolute_files(str(each.args["value"]), base)) for key, each in written)
    return Connector(format_name, options, tuple((key, source.line(each)) for key, each in written))


def _with_event_time(source: Source, stream: Stream, times: Mapping[str, Setting]) -> Stream:
    """The stream with its event time, spelt as the column is declared."""
    written, unit, format_ = (str(times[key].args["value"]) if key in times else None for key in TIME_KEYS)
    try:
        return replace(stream, event_time=None).with_event_time(written, unit, format_)
    except EventTimeError as problem:
        at = times.get(problem.setting, times["event_time"])
        raise source.refuse(problem.problem, at, problem.advice) from None
    except LookupError:
        close = nearest(str(written), [column.name for column in stream.columns])
        raise source.refuse(
            f"event_time names no column of {stream.name}: '{written}'",
            times["event_time"],
            f"Did you mean {close}?" if close else f"Columns: {', '.join(c.name for c in stream.columns)}.",
        ) from None
