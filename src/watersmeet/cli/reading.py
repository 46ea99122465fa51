"""Pipeline files, read without Spark where their text says all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path

from watersmeet.cli.terminal.log_file import temporary_log
from watersmeet.cli.terminal.messages import waiting
from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.plan.statistics.file import read_statistics
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Connector, Pipeline, Query, Stream
from watersmeet.session import Session, read_text, statistics_beside
from watersmeet.spark.session.failures import first_line
from watersmeet.spark.session.packages import add_packages
from watersmeet.sql import parse_pipeline, parse_statements


def read_declared(file: Path) -> Pipeline | None:
    """The pipeline of a file, bound without Spark; None where a stream leaves its columns to its source."""
    text = read_text(file)
    if any(not stream.columns for stream in parse_statements(text, str(file)).streams):
        return None
    return _with_queries(file, parse_pipeline(text, file=str(file)))


def read_pipeline(file: Path, master: str) -> Pipeline:
    """The pipeline of a file, asking Spark for the columns that are not declared and for nothing else."""
    if (pipeline := read_declared(file)) is not None:
        return pipeline
    conf = add_packages({}, sources_of(file))
    with waiting("asking Spark for columns"), spark_session(master, conf, temporary_log()) as session:
        return _with_queries(file, session.read(file))


def sources_of(file: Path) -> tuple[Connector, ...]:
    """The sources a pipeline file declares."""
    return _sources(parse_statements(read_text(file), str(file)).streams)


def connectors_of(file: Path) -> tuple[Connector, ...]:
    """The sources and sinks a pipeline file declares."""
    declared = parse_statements(read_text(file), str(file))
    return (*_sources(declared.streams), *(sink.connector for sink in declared.sinks))


def _sources(streams: Iterable[Stream]) -> tuple[Connector, ...]:
    return tuple(stream.source for stream in streams if stream.source is not None)


def _with_queries(file: Path, pipeline: Pipeline) -> Pipeline:
    if not pipeline.queries:
        raise ConfigurationError(f"{file} declares streams but has no query: add a SELECT or INSERT INTO")
    return pipeline


def names(queries: Sequence[Query]) -> list[str]:
    """What the queries of a file are called wherever they are shown, as their checkpoints are."""
    return [f"{number}-{query.sink or 'console'}" for number, query in enumerate(queries, start=1)]


def statistics_for(file: Path, given: Path | None) -> Statistics | None:
    """The statistics given, or those found beside the file."""
    return read_statistics(given) if given is not None else statistics_beside(file)


@contextmanager
def spark_session(master: str, conf: Mapping[str, str], log: Path) -> Iterator[Session]:
    """A session of its own, stopped at the end; whatever Spark says goes to the log."""
    try:
        session = Session(master=master, conf=conf, log=log)
    except WatersmeetError:
        raise
    except Exception as error:
        # What Spark raises for a master it cannot reach or a setting it will not take has many types.
        raise ConfigurationError(
            f"Spark does not start with master {master}: {first_line(str(error))}\n{_tail(log)}"
        ) from None
    try:
        yield session
    except KeyboardInterrupt:
        raise  # who interrupts a command that is stopping will not wait: the JVM ends with this process
    except BaseException:
        _stop(session, log)
        raise
    _stop(session, log)


def _stop(session: Session, log: Path) -> None:
    # PySpark's accumulator server may print a traceback when the JVM hangs up first; the JVM may be gone.
    with log.open("a") as file, redirect_stderr(file), suppress(Exception):
        session.spark.stop()


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """`key=value` texts as a mapping.

    >>> parse_settings(["spark.driver.memory=2g"])
    {'spark.driver.memory': '2g'}
    """
    parsed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigurationError(f"--conf {setting}: write KEY=VALUE, such as spark.driver.memory=4g")
        parsed[key.strip()] = value.strip()
    return parsed


def _tail(log: Path, lines: int = 5) -> str:
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(f"  {line}" for line in text.strip().split("\n")[-lines:])
