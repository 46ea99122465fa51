"""`watersmeet size`: how many partitions a query needs for the answers to be as complete as wanted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.reading import names, read_pipeline, statistics_for
from watersmeet.cli.reports import show_reports
from watersmeet.cli.request import DEFAULT_MASTER
from watersmeet.errors import ConfigurationError
from watersmeet.plan.completeness import StreamDemand, size, stream_demands, typed_demands
from watersmeet.plan.statistics import Statistics
from watersmeet.query import parse_duration

_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", re.IGNORECASE)
_FACTOR = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def size_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="The pipeline file; without it, numbers typed in.", metavar="[FILE.sql]"),
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
        int | None, typer.Option(min=1, help="Tell the completeness of this many as well.")
    ] = None,
    stats: Annotated[
        Path | None,
        typer.Option(help="Statistics to plan by [default: FILE.stats.json if there].", metavar="S.json"),
    ] = None,
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
) -> None:
    """Tell how many partitions of a given memory hold enough of the windows for the answers wanted."""
    if (memory is None) == (not memory_tuples):
        raise ConfigurationError("say what fits in a partition: --memory 256MB, or --memory-tuples a=100000")
    if file is None:
        demands = {"streams": _typed(rate, window, memory_tuples, tuple_bytes)}
    else:
        if rate or window or tuple_bytes:
            raise ConfigurationError(
                "a pipeline file has its own rates and windows: leave out --rate and such"
            )
        tuples = _parse_tuples(memory_tuples) if memory_tuples else None
        queries = read_pipeline(file, DEFAULT_MASTER).queries
        known = statistics_for(file, stats) or Statistics()
        demands = {
            name: stream_demands(query, known, tuples)
            for name, query in zip(names(queries), queries, strict=True)
        }
    memory_bytes = None if memory is None else parse_bytes(memory)
    reports = {
        name: size(streams, completeness, partitions=partitions, memory_bytes=memory_bytes)
        for name, streams in demands.items()
    }
    show_reports(reports, as_json=as_json)


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


def parse_bytes(text: str) -> float:
    """Bytes of '256MB', '1.5 g' or '1000'; a k is a thousand.

    >>> parse_bytes("1.5 GB")
    1500000000.0
    """
    found = _BYTES.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"--memory {text}: write a number and a unit, such as 256MB")
    return float(found[1]) * _FACTOR[found[2].lower()]


def _parse_tuples(texts: list[str]) -> dict[str, float]:
    parsed = {}
    for text in texts:
        alias, _, number = text.partition("=")
        try:
            parsed[alias.strip()] = float(number)
        except ValueError:
            raise ConfigurationError(f"--memory-tuples {text}: write ALIAS=N, such as a=100000") from None
    return parsed
