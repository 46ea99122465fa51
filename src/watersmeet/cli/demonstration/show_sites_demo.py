"""The demonstration of sites on the screen: the same packets joined by three plans, and the bytes of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from watersmeet.cli.demonstration.judge import Verdict, in_microseconds, judge_by_duckdb, judge_by_oracle
from watersmeet.cli.demonstration.sites_demo import WINDOW_MS, SitesDemo
from watersmeet.cli.run_request import ALL_SITES, Request
from watersmeet.cli.sites.run_sites import follow_sites
from watersmeet.cli.terminal.stop_signals import StopRequest
from watersmeet.errors import WatersmeetError
from watersmeet.plan.sites.advice import SiteAdvice, SiteOption, advise_sites
from watersmeet.plan.statistics import write_statistics
from watersmeet.sites.bill import Bill
from watersmeet.sql import parse_pipeline

SHOWN = ("pmjoin", "semijoin", "simple")
QUERY = "common"  # by the name of its sink
JUDGED = ("dest", "size_1", "size_2", "size_3", "answer_time")  # what DuckDB is asked for


@dataclass(frozen=True)
class Outcome:
    """What one plan has shipped, and its answers."""

    option: SiteOption
    bill: Bill
    answers: pa.Table


def show_sites_demo(demo: SitesDemo, folder: Path, console: Console, stop: StopRequest) -> bool:
    """Runs the plans one after another; whether all have given the right answers."""
    packets = demo.packets()
    for name, table in packets.items():
        (folder / "data" / name).mkdir(parents=True)
        pq.write_table(table, folder / "data" / name / "0.parquet")
    console.print(Syntax(demo.pipeline(), "sql", background_color="default", word_wrap=True))
    (query,) = parse_pipeline(demo.pipeline()).queries
    statistics = demo.statistics(packets)
    advice = advise_sites(query, statistics)
    outcomes = []
    for option in options_shown(advice):
        console.print(Text(f"\n{option.name}\n", style="bold cyan"))
        file = folder / option.method / "pipeline.sql"
        file.parent.mkdir()
        file.write_text(demo.pipeline())
        write_statistics(statistics, file.with_suffix(".stats.json"))
        outcomes.append(_run(file, option, stop))
        if stop:
            return True
    console.print()
    console.print(bytes_table(outcomes))
    console.print(Text(_comparison(advice, outcomes)), soft_wrap=True)
    return _judge(demo, packets, outcomes, console)


def options_shown(advice: SiteAdvice) -> list[SiteOption]:
    """Of each method shown the cheapest plan."""
    found = [next((option for option in advice.options if option.method == method), None) for method in SHOWN]
    return [option for option in found if option is not None]


def _run(file: Path, option: SiteOption, stop: StopRequest) -> Outcome:
    request = Request(file=file, available_now=True, flush=True, site=ALL_SITES, plan=option.name)
    code, bills = follow_sites(request, stop)
    if code != 0:
        raise WatersmeetError(f"{option.name}: some site has failed")
    found = sorted((file.parent / "out").glob("*.parquet"))
    answers = pa.concat_tables([pq.read_table(each) for each in found]) if found else pa.table({})
    return Outcome(option, bills[0], in_microseconds(answers, "answer_time"))


def bytes_table(outcomes: list[Outcome]) -> Table:
    """What each plan has shipped over each link."""
    table = Table(title="bytes across the links", title_justify="left", title_style="bold cyan", box=None)
    table.add_column("link")
    for outcome in outcomes:
        table.add_column(outcome.option.method, justify="right")
    crossed = [{link.way: link.priced_bytes for link in each.bill.links} for each in outcomes]
    for way in sorted({way for own in crossed for way in own}):
        table.add_row(f"{way[0]} -> {way[1]}", *(f"{own.get(way, 0.0):,.0f}" for own in crossed))
    table.add_row("all", *(f"{sum(own.values()):,.0f}" for own in crossed))
    predicted = (each.option.bytes_per_s * each.bill.seconds for each in outcomes)
    table.add_row("predicted", *(f"{number:,.0f}" for number in predicted))
    table.add_row("rows", *(f"{each.bill.rows:,}" for each in outcomes))
    return table


def _comparison(advice: SiteAdvice, outcomes: list[Outcome]) -> str:
    """How the cheapest compares with shipping all, and with the best plan without partitions."""
    shipped = {each.option.method: each.bill.priced_bytes for each in outcomes}
    single = min(
        (option for option in advice.options if option.method in ("simple", "distributed")),
        key=lambda option: option.bytes_per_s,
    )
    share = shipped["pmjoin"] / shipped["simple"]
    best = next(each.option for each in outcomes if each.option.method == "simple")
    same = single.bytes_per_s >= best.bytes_per_s * (1 - 1e-9)
    what = (
        "the best single plan" if same else f"simple shipping ({single.name} would be the best single plan)"
    )
    return f"\nPMJoin ships {share:.1%} of what {what} ships, {best.name}"


def _judge(
    demo: SitesDemo, packets: Mapping[str, pa.Table], outcomes: list[Outcome], console: Console
) -> bool:
    streams = {name: in_microseconds(table, "ts") for name, table in packets.items()}
    console.print(Text("\nthe verdict", style="bold cyan"))
    verdicts = [verdict(demo, streams, each.answers) for each in outcomes]
    for outcome, found in zip(outcomes, verdicts, strict=True):
        if found.holds:
            same = f"{outcome.option.name}: {found.expected:,} answers, each once, as {found.judge} gives"
            console.print(Text.assemble(("the same ", "bold green"), same), soft_wrap=True)
        else:
            wrong = f"{outcome.option.name}: {found.missing:,} answers are missing and {found.extra:,} "
            said = f"{wrong}should not be there, says {found.judge}"
            console.print(Text.assemble(("wrong: ", "bold red"), said), soft_wrap=True)
    return all(found.holds for found in verdicts)


def verdict(demo: SitesDemo, streams: dict[str, pa.Table], answers: pa.Table) -> Verdict:
    """The answers of one plan, against those of another system on the same packets."""
    if find_spec("duckdb") is not None:
        return judge_by_duckdb(streams, answers.select(JUDGED), WINDOW_MS)
    return judge_by_oracle(parse_pipeline(demo.pipeline()), streams, answers)
