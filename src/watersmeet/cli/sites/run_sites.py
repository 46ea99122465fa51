"""`watersmeet sites`: all sites of a pipeline file as processes on this machine, and the bill at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from watersmeet.cli.options import Conf, PipelineFile, PlanName, StatisticsFile
from watersmeet.cli.run_request import ALL_SITES, Request
from watersmeet.cli.sites.fleet import Fleet
from watersmeet.cli.sites.plans import Plans
from watersmeet.cli.sites.replanner import MODES, SAY, Replanner
from watersmeet.cli.terminal.messages import tell, tell_event
from watersmeet.cli.terminal.stop_signals import StopRequest, catch_stop
from watersmeet.errors import ConfigurationError
from watersmeet.sites.bill import Bill
from watersmeet.sites.replan import FACTOR
from watersmeet.sites.run_site import check_site_options


def sites_command(
    file: PipelineFile,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="With --flush: process what the sources hold, then end.")
    ] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="With --available-now: the input of all sites ends here.")
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(help="Start a batch this often, such as 1s.", metavar="DURATION")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Where to keep state and links [default: .watersmeet beside it].", metavar="DIR"),
    ] = None,
    conf: Conf = None,
    stats: StatisticsFile = None,
    plan: PlanName = None,
    replan: Annotated[
        str,
        typer.Option(
            help="When another plan would ship less by now: off, say (so), or auto (change over).",
            metavar="MODE",
        ),
    ] = SAY,
    replan_factor: Annotated[
        float, typer.Option(help="How many times as much the running plan must ship.", metavar="N")
    ] = FACTOR,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print progress as JSON, one event a line.")
    ] = False,
) -> None:
    """Run all sites of a pipeline file here, each with a Spark of its own; say what crossed each link."""
    request = Request(
        file=file,
        available_now=available_now,
        flush=flush,
        trigger=trigger,
        checkpoint=checkpoint,
        conf=tuple(conf or ()),
        stats=stats,
        plan=plan,
        as_json=as_json,
        site=ALL_SITES,
        replan=replan,
        replan_factor=replan_factor,
    )
    raise typer.Exit(run_sites(request))


def run_sites(request: Request) -> int:
    """Runs all sites until they have ended, one has failed, or a stop is asked for; the exit code."""
    with catch_stop() as stop:
        code, bills = follow_sites(request, stop)
    for bill in bills:
        tell_event(request.as_json, "bill", **bill.to_json())
        tell(f"\n{bill.pretty()}")
    if stop:
        tell(f"\nstopped; to resume:\n  {request.command()}")
    return stop.exit_code or code


def follow_sites(request: Request, stop: StopRequest) -> tuple[int, list[Bill]]:
    """Runs all sites as long as there is something to do; the exit code, and the bills of the queries."""
    check_site_options(request.options())
    if request.replan not in MODES:
        raise ConfigurationError(f"--replan {request.replan}: write one of {', '.join(MODES)}")
    if request.replan_factor < 1:
        raise ConfigurationError(f"--replan-factor {request.replan_factor:g}: write a number from 1 on")
    while True:
        plans = Plans(request)
        for plan in plans.newest:
            tell(f"{plan.label}: {plan.option.name}")
        replanner = Replanner(request, plans)
        code, changes = Fleet(request, plans, replanner).follow(stop)
        if stop or code or not changes:
            return code, plans.draw_up()
        if not replanner.change(changes):
            request = replace(request, replan=SAY)
