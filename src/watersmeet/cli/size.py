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
from watersmeet.plan.completeness import size, stream_demands
from watersmeet.plan.statistics import Statistics

_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", re.IGNORECASE)
_FACTOR = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def size_command(
    file: Annotated[Path, typer.Argument(help="The pipeline file.", metavar="FILE.sql")],
    completeness: Annotated[
        float, typer.Option(help="The share of answers wanted, above 0 and at most 1.")
    ] = 1.0,
    memory: Annotated[
        str | None, typer.Option(help="Memory of one partition, such as 256MB, shared by all streams.")
    ] = None,
    memory_tuples: Annotated[
        list[str] | None,
        typer.Option(help="Tuples of an input that fit in one partition; once an input.", metavar="ALIAS=N"),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Tell the completeness of this many as well.")
    ] = None,
    stats: Annotated[
        Path | None,
        typer.Option(help="Statistics to plan by [default: FILE.stats.json if there].", metavar="S.json"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Tell how many partitions of a given memory hold enough of the windows for the answers wanted."""
    if (memory is None) == (not memory_tuples):
        raise ConfigurationError("say what fits in a partition: --memory 256MB, or --memory-tuples a=100000")
    queries = read_pipeline(file, DEFAULT_MASTER).queries
    statistics = statistics_for(file, stats) or Statistics()
    tuples = _parse_tuples(memory_tuples) if memory_tuples else None
    reports = {
        name: size(
            stream_demands(query, statistics, tuples),
            completeness,
            partitions=partitions,
            memory_bytes=None if memory is None else parse_bytes(memory),
        )
        for name, query in zip(names(queries), queries, strict=True)
    }
    show_reports(reports, as_json=as_json)


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
