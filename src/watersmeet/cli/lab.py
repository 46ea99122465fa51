"""`watersmeet lab`: the papers' figures, listed, run and put on a page; and their protocols to watch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.spark_session import spark_session
from watersmeet.cli.terminal.messages import tell
from watersmeet.cli.terminal.spark_log import temporary_log
from watersmeet.errors import ConfigurationError

if TYPE_CHECKING:
    from watersmeet.lab.figures import Progress, Runner

lab_commands = typer.Typer(
    help="The papers' protocols over simulated networks: their figures, run anew.",
    no_args_is_help=True,
    add_completion=False,
)


@lab_commands.command("list")
def list_figures() -> None:
    """Name every figure."""
    from watersmeet.lab.figures import figure_titles

    titles = figure_titles()
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        typer.echo(f"{name:<{width}}  {title}")


@lab_commands.command("figure")
def make_figure(
    name: Annotated[str, typer.Argument(help="A name that `lab list` shows.", metavar="NAME")],
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: seconds instead of minutes.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of all randomness.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write JSON, CSV, Parquet and SVG into this folder.", metavar="DIR")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Simulations at a time [default: one a core].")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Run the simulations on this Spark master, one a task.")
    ] = None,
) -> None:
    """Run a figure's simulations, draw it, and say which of the paper's claims hold."""
    from watersmeet.lab.figures import draw_text, run_figure, write_figure

    workers = processes or os.cpu_count() or 1
    with _progress_bar(name) as progress, _runner(master, workers, progress) as runner:
        result = run_figure(name, quick=quick, seed=seed, runner=runner)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1, ensure_ascii=False))
    else:
        typer.echo(f"{result.title}\n\n{draw_text(result.panels)}\n")
        for claim in result.claims:
            why = f"\n       {claim.why}" if claim.why else ""
            typer.echo(f"{'holds' if claim.holds else 'FAILS':<6} {claim.text} ({claim.value}){why}")
    if out is not None:
        try:
            paths = write_figure(result, out)
        except OSError as error:
            raise ConfigurationError(f"--out {out} cannot be written: {error.strerror}") from None
        tell(f"written: {', '.join(map(str, paths))}")


@lab_commands.command("page")
def make_page(
    folder: Annotated[
        Path, typer.Argument(help="Where `lab figure --out` wrote its files.", metavar="FOLDER")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the page here instead of printing it.", metavar="FILE")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The figures were run with --quick: the page says so.")
    ] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Copy the drawings to a folder beside the page, and show them.")
    ] = False,
) -> None:
    """Put figures that were run on one page of Markdown: claims, verdicts and numbers."""
    from watersmeet.lab.figures import copy_pictures, figure_page, read_figures

    if pictures and out is None:
        raise ConfigurationError("--pictures puts drawings beside the page, so it goes with --out")
    figures = read_figures(folder)
    shown = None
    if pictures and out is not None:
        shown = out.stem
        try:
            copy_pictures(figures, folder, out.parent / shown)
        except OSError as error:
            raise ConfigurationError(f"{out.parent / shown} cannot be written: {error.strerror}") from None
    _give(figure_page(figures, folder=folder.resolve().name, quick=quick, pictures=shown), out)


@lab_commands.command("watch")
def watch(
    scenario: Annotated[str, typer.Argument(help="rjoin or dhtjoin.", metavar="rjoin|dhtjoin")],
    text: Annotated[
        bool, typer.Option("--text", help="Print the steps [default, unless --out is given].")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write an HTML page to step through the run.", metavar="FILE")
    ] = None,
) -> None:
    """Step through a small ring: every message, and where queries and tuples sit."""
    from watersmeet.lab.watch import record, to_page, to_text

    recording = record(scenario)
    if text or out is None:
        _give(to_text(recording), None)
    if out is not None:
        _give(to_page(recording), out)


def _give(text: str, out: Path | None) -> None:
    """Text into a file, or printed."""
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--out {out} cannot be written: {error.strerror}") from None
    tell(f"written: {out}")


@contextmanager
def _progress_bar(name: str) -> Iterator[Progress]:
    """On a terminal, how many of a figure's simulations are done; elsewhere nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task(f"running {name}", total=None)
        yield lambda done, total: bar.update(shown, completed=done, total=total)


@contextmanager
def _runner(master: str | None, processes: int, progress: Progress) -> Iterator[Runner]:
    """Where simulations run: on Spark, in several processes, or here."""
    from watersmeet.lab.figures import run_here, run_in_processes

    if master is not None:
        from watersmeet.spark.jobs.sweep import run_sweep

        with spark_session(master, {}, temporary_log()) as session:
            yield partial(run_sweep, session.spark, progress=progress)
    elif processes == 1:
        yield partial(run_here, progress=progress)
    else:
        yield run_in_processes(processes, progress)
