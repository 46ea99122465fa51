"""`watersmeet explain`: how the queries of a pipeline file would run, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Protocol

import typer

from watersmeet.cli.options import DEFAULT_MASTER, PipelineFile, StatisticsFile
from watersmeet.cli.pipeline_files import read_queries, statistics_for
from watersmeet.cli.sites.explain_sites import Trial, advise
from watersmeet.cli.terminal.query_reports import show_reports
from watersmeet.errors import ConfigurationError
from watersmeet.plan.explain import AUTO, KNOWN_STRATEGIES, explain
from watersmeet.plan.routing.routing import ROUTINGS
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.spark.analyze.analyze import DEFAULT_SAMPLE_ROWS
from watersmeet.spark.jobs.pipeline_file import absolute_checkpoint, default_checkpoint
from watersmeet.spark.session.environment import default_partitions


def explain_command(
    file: PipelineFile,
    stats: StatisticsFile = None,
    strategy: Annotated[
        str, typer.Option(help=f"One of {', '.join(KNOWN_STRATEGIES)}.", metavar="NAME")
    ] = AUTO,
    routing: Annotated[
        str, typer.Option(help=f"How it would run: {', '.join((AUTO, *ROUTINGS))}.", metavar="NAME")
    ] = AUTO,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1, help="Shuffle partitions [default: one a core of a cluster, half as many of a machine]."
        ),
    ] = None,
    master: Annotated[str, typer.Option(help="The Spark master it would run on.")] = DEFAULT_MASTER,
    as_json: Annotated[bool, typer.Option("--json", help="The explanation as JSON.")] = False,
    svg: Annotated[
        Path | None, typer.Option(help="Draw the plan into this file as well.", metavar="OUT.svg")
    ] = None,
    sites: Annotated[
        bool, typer.Option("--sites", help="Price every way to join streams that are at different sites.")
    ] = False,
    simulate: Annotated[
        str | None,
        typer.Option(help="With --sites: run the advice on a simulated network for so long.", metavar="60s"),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            help="With --sites: how often semijoin plans exchange values [default: 100ms].", metavar="1s"
        ),
    ] = None,
    measured: Annotated[
        bool, typer.Option("--measured", help="With --sites: beside it what has crossed links in a run.")
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="With --measured: that of the run [default: .watersmeet beside it].", metavar="DIR"
        ),
    ] = None,
    sample_rows: Annotated[
        int, typer.Option(min=2, help="With --simulate: rows to take of each stream.")
    ] = DEFAULT_SAMPLE_ROWS,
    seed: Annotated[int, typer.Option(help="With --simulate: the seed of tuples that are drawn.")] = 0,
) -> None:
    """Show how a pipeline file would run: join graph, routing, stages, what is kept and for how long.

    Where every stream declares its columns, neither Spark nor Java is needed.
    """
    if simulate is not None and not sites:
        raise ConfigurationError("--simulate runs the advice on sites, so it goes with --sites")
    if interval is not None and not sites:
        raise ConfigurationError(
            "--interval is that of semijoin plans between sites, so it goes with --sites"
        )
    if (measured or checkpoint is not None) and not sites:
        raise ConfigurationError("--measured is about runs across sites, so it goes with --sites")
    if checkpoint is not None and not measured:
        raise ConfigurationError("--checkpoint says what run was measured, so it goes with --measured")
    if sites and strategy != AUTO:
        raise ConfigurationError("--sites compares all ways to join: leave out --strategy")
    queries = read_queries(file, master)
    known = statistics_for(file, stats)
    if sites:
        root = absolute_checkpoint(checkpoint or default_checkpoint(file)) if measured else None
        trial = Trial(simulate, interval, master, sample_rows, seed, root)
        advised = advise(file, queries, known or Statistics(), trial)
        if svg is not None:
            _draw(svg, advised)
        show_reports(advised, as_json=as_json)
        return
    wanted = None if routing == AUTO else routing
    count = partitions or default_partitions(master, {})
    explained = {
        name: explain(query, known or Statistics(), strategy=strategy, partitions=count, routing=wanted)
        for name, query in queries.items()
    }
    if svg is not None:
        _draw(svg, explained)
    show_reports(explained, as_json=as_json)


class Drawable(Protocol):
    """Something with a picture."""

    def svg(self) -> str: ...


def _draw(svg: Path, explained: Mapping[str, Drawable]) -> None:
    """One picture a query; with several, each into a file with the query's name in its own."""
    for name, found in explained.items():
        path = svg if len(explained) == 1 else svg.with_stem(f"{svg.stem}-{name}")
        try:
            path.write_text(found.svg(), encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"--svg {path} cannot be written: {error.strerror}") from None
