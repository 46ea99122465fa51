"""Pipeline files, read without Spark where they declare all their columns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from watersmeet.cli.spark_session import spark_session
from watersmeet.cli.terminal.messages import waiting
from watersmeet.cli.terminal.spark_log import temporary_log
from watersmeet.plan.statistics.file import read_statistics
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Connector, Query, Stream
from watersmeet.spark.jobs.pipeline_file import name_queries, read_source, read_text, statistics_beside
from watersmeet.spark.session.packages import add_packages
from watersmeet.sql import parse_pipeline, parse_statements


def read_declared(file: Path) -> dict[str, Query] | None:
    """The queries of a file by name, bound without Spark; None if a stream declares no columns."""
    source = read_source(file)
    if any(not stream.columns for stream in parse_statements(source.text, source.file).streams):
        return None
    return name_queries(parse_pipeline(source.text, file=source.file), source)


def read_queries(file: Path, master: str) -> dict[str, Query]:
    """The queries of a file by name, asking Spark only for columns that are not declared."""
    if (queries := read_declared(file)) is not None:
        return queries
    conf = add_packages({}, sources_of(file))
    with waiting("asking Spark for columns"), spark_session(master, conf, temporary_log()) as session:
        return name_queries(session.read(file), read_source(file))


def sources_of(file: Path) -> tuple[Connector, ...]:
    """The sources a pipeline file declares."""
    declared = parse_statements(read_text(file), str(file))
    return _sources([*declared.streams, *declared.tables])


def connectors_of(file: Path) -> tuple[Connector, ...]:
    """The sources, sinks and links a pipeline file declares."""
    declared = parse_statements(read_text(file), str(file))
    sinks, links = (tuple(each.connector for each in own) for own in (declared.sinks, declared.links))
    return (*_sources([*declared.streams, *declared.tables]), *sinks, *links)


def _sources(streams: Iterable[Stream]) -> tuple[Connector, ...]:
    return tuple(stream.source for stream in streams if stream.source is not None)


def statistics_for(file: Path, given: Path | None) -> Statistics | None:
    """The statistics given, or those found beside the file."""
    return read_statistics(given) if given is not None else statistics_beside(file)
