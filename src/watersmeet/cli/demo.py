"""`watersmeet demo`: the join of three routers, live for a while, then checked."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from watersmeet.cli.demonstration.demo import Demo
from watersmeet.cli.demonstration.show_demo import show_demo
from watersmeet.cli.demonstration.show_sites_demo import show_sites_demo
from watersmeet.cli.demonstration.sites_demo import SitesDemo
from watersmeet.cli.options import DEFAULT_MASTER
from watersmeet.cli.spark_session import spark_session
from watersmeet.cli.terminal.messages import tell, tell_error, waiting
from watersmeet.cli.terminal.spark_log import temporary_log
from watersmeet.cli.terminal.stop_signals import StopRequest, catch_stop
from watersmeet.errors import WatersmeetError


def demo_command(
    seconds: Annotated[
        int | None, typer.Option(min=1, help="How long packets come in [default: 20; of --sites 60].")
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(min=1, help="Packets a second at each router [default: 20000; of --sites 400]."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives other packets.")] = 1,
    sites: Annotated[
        bool, typer.Option("--sites", help="Three routers at three sites: what each plan ships between them.")
    ] = False,
) -> None:
    """Join the packets of three routers live for a while, and check the answers with another system."""
    given = {name: value for name, value in (("seconds", seconds), ("rate", rate)) if value is not None}
    log = temporary_log()
    try:
        if sites:
            stop, holds = _demo_of_sites(SitesDemo(**given, seed=seed))
        else:
            stop, holds = _demo(Demo(**given, seed=seed), log)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except WatersmeetError as error:
        tell_error(f"{error}" if sites else f"{error}\nSpark's own messages are in {log}")
        raise typer.Exit(1) from None
    if stop:
        tell("stopped before the end: there is nothing to check")
    raise typer.Exit(stop.exit_code if stop else 0 if holds else 1)


def _demo(demo: Demo, log: Path) -> tuple[StopRequest, bool]:
    """The join of three routers at one place; whether its answers are right."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="watersmeet-demo-"))
        with waiting("starting Spark"):
            session = stack.enter_context(spark_session(DEFAULT_MASTER, {}, log))
        stop = stack.enter_context(catch_stop())
        return stop, show_demo(demo, session, Path(folder), Console(), until=lambda: bool(stop))


def _demo_of_sites(demo: SitesDemo) -> tuple[StopRequest, bool]:
    """The join of routers at three sites, by several plans; whether the answers of all are right."""
    with TemporaryDirectory(prefix="watersmeet-demo-") as folder, catch_stop() as stop:
        return stop, show_sites_demo(demo, Path(folder), Console(), stop)
