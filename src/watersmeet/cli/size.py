"""`watersmeet size`: the memory, or the partitions, that a query needs for a wanted completeness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from watersmeet.cli.options import DEFAULT_MASTER, StatisticsFile
from watersmeet.cli.pipeline_files import read_queries, statistics_for
from watersmeet.cli.terminal.query_reports import show_reports
from watersmeet.errors import ConfigurationError
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.sizing.completeness import StreamDemand, size, stream_demands, typed_demands
from watersmeet.plan.sizing.state_size import StateReport, analysed_loads, live_loads
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import parse_duration
from watersmeet.query.byte_size import parse_bytes_of
from watersmeet.spark.jobs.checkpoint import PROGRESS
from watersmeet.spark.jobs.pipeline_file import query_folder
from watersmeet.spark.session.environment import default_partitions

_OWN_RATES = "a pipeline file has its own rates and windows: leave out --rate and such"


def size_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="The pipeline file; or give the numbers yourself.", metavar="[FILE.sql]"),
    ] = None,
    completeness: Annotated[
        float, typer.Option(help="The share of answers wanted, above 0 and at most 1.")
    ] = 1.0,
    memory: Annotated[
        str | None, typer.Option(help="Memory of one partition, such as 256MB, shared by all streams.")
    ] = None,
    memory_tuples: Annotated[
        list[str] | None,
        typer.Option(
            help="Tuples of an input that fit in one partition; once an input, or N for all.",
            metavar="ALIAS=N",
        ),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Show the completeness of this many as well.")
    ] = None,
    stats: StatisticsFile = None,
    rate: Annotated[
        list[float] | None, typer.Option(help="Without a file: tuples a second; once a stream.")
    ] = None,
    window: Annotated[
        list[str] | None,
        typer.Option(help="Without a file: a window, such as 10min; one for all or once a stream."),
    ] = None,
    tuple_bytes: Annotated[
        list[float] | None, typer.Option(help="Without a file: bytes a tuple; one for all or once a stream.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    live: Annotated[
        Path | None,
        typer.Option(
            help="Size by the progress of a run: its checkpoint, or the output of `run --json`.",
            metavar="PATH",
        ),
    ] = None,
) -> None:
    """Show the memory a pipeline's state needs for the answers you want; or the partitions."""
    if file is not None and memory is None and not memory_tuples:
        if rate or window or tuple_bytes:
            raise ConfigurationError(_OWN_RATES)
        show_reports(_state_reports(file, completeness, partitions, stats, live), as_json=as_json)
        return
    if live is not None:
        raise ConfigurationError("--live computes the memory that is needed: leave out --memory")
    if (memory is None) == (not memory_tuples):
        raise ConfigurationError("say what fits in a partition: --memory 256MB, or --memory-tuples a=100000")
    if file is None:
        demands = {"streams": _typed(rate, window, memory_tuples, tuple_bytes)}
    elif rate or window or tuple_bytes:
        raise ConfigurationError(_OWN_RATES)
    else:
        demands = _demands(file, stats, memory_tuples)
    memory_bytes = None if memory is None else parse_bytes_of("--memory", memory)
    reports = {
        name: size(streams, completeness, partitions=partitions, memory_bytes=memory_bytes)
        for name, streams in demands.items()
    }
    show_reports(reports, as_json=as_json)


def _demands(
    file: Path, stats: Path | None, memory_tuples: list[str] | None
) -> dict[str, tuple[StreamDemand, ...]]:
    """What the streams of each query demand of a partition."""
    tuples = _parse_tuples(memory_tuples) if memory_tuples else None
    known = statistics_for(file, stats) or Statistics()
    return {
        name: stream_demands(query, known, tuples)
        for name, query in read_queries(file, DEFAULT_MASTER).items()
    }


def _state_reports(
    file: Path, target: float, partitions: int | None, stats: Path | None, live: Path | None
) -> dict[str, StateReport]:
    """The memory of each query's state, from the measured rates and sizes of its streams."""
    count = partitions or default_partitions(DEFAULT_MASTER, {})
    known = statistics_for(file, stats)
    reports = {}
    for name, query in read_queries(file, DEFAULT_MASTER).items():
        plan = plan_physical(query, count, known)
        copies = {item.alias: plan.copies(item.alias) for item in query.inputs}
        if live is not None:
            loads, source = live_loads(query, read_progress(live, name), copies), f"the run of {live}"
        else:
            loads = analysed_loads(query, known or Statistics(), copies)
            source = "its statistics" if known else "defaults (`watersmeet analyze` measures)"
        reports[name] = StateReport(loads, target, count, source)
    return reports


def read_progress(path: Path, query: str) -> dict[str, Any]:
    """The last progress of a query: in a checkpoint's folder, or in the output of `run --json`."""
    folders = (Path(query_folder(str(path), query)), path)
    kept = next((folder / PROGRESS for folder in folders if (folder / PROGRESS).exists()), None)
    try:
        lines = (kept or path).read_text().splitlines()
    except OSError as error:
        raise ConfigurationError(f"{path} has no progress of {query}: {error.strerror}") from None
    found = None
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # such as answers printed between
        if isinstance(record, dict) and "inputs" in record and record.get("query", query) == query:
            found = record
    if found is None:
        raise ConfigurationError(f"{path} has no progress of {query}")
    return found


def _typed(
    rates: list[float] | None,
    windows: list[str] | None,
    memory_tuples: list[str] | None,
    tuple_bytes: list[float] | None,
) -> tuple[StreamDemand, ...]:
    """Streams from numbers on the command line."""
    if not rates or not windows:
        raise ConfigurationError("name a pipeline file, or type in --rate and --window of the streams")
    try:
        windows_s = [parse_duration(text) / 1e6 for text in windows]
        tuples = [float(text) for text in memory_tuples or ()]
    except ValueError as error:
        raise ConfigurationError(f"{error}") from None
    return typed_demands(rates, windows_s, tuples, tuple_bytes or (1.0,))


def _parse_tuples(texts: list[str]) -> dict[str, float]:
    parsed = {}
    for text in texts:
        alias, _, number = text.partition("=")
        try:
            parsed[alias.strip()] = float(number)
        except ValueError:
            raise ConfigurationError(f"--memory-tuples {text}: write ALIAS=N, such as a=100000") from None
    return parsed
