"""The demonstration of sites: what it is to show, and through Spark that it does."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from watersmeet.cli.demonstration.judge import in_microseconds
from watersmeet.cli.demonstration.show_sites_demo import options_shown, show_sites_demo, verdict
from watersmeet.cli.demonstration.sites_demo import SitesDemo
from watersmeet.cli.terminal.stop_signals import StopRequest
from watersmeet.lab.wan.arrivals import arrivals_of
from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork
from watersmeet.oracle.oracle import Tuple, run
from watersmeet.plan.sites.advice import advise_sites
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.sql import parse_pipeline

SMALL = SitesDemo(seconds=4)


def test_pmjoin_ships_at_most_half_of_the_best_single_plan() -> None:
    """As predicted, and in the simulator; the best single plan is to ship all to one site."""
    demo = SitesDemo(seconds=10)
    packets = demo.packets()
    (query,) = parse_pipeline(demo.pipeline()).queries
    advice = advise_sites(query, demo.statistics(packets))
    single = [option for option in advice.options if option.method in ("simple", "distributed")]
    best = min(option.bytes_per_s for option in single)
    pmjoin, *_, simple = options_shown(advice)
    assert (pmjoin.method, simple.method) == ("pmjoin", "simple")
    assert simple.bytes_per_s == pytest.approx(best)
    assert pmjoin.bytes_per_s < best / 2
    streams = {
        name: [Tuple(row["ts"], row) for row in in_microseconds(table, "ts").to_pylist()]
        for name, table in packets.items()
    }
    arrivals = arrivals_of(query, streams)
    shipped = []
    for option in (pmjoin, simple):
        assert not isinstance(option.plan, SemijoinPlan)
        network = PmjoinNetwork(query, option.plan, keep_answers=False, start_us=arrivals[0].at_us)
        traffic = network.run(arrivals, until_us=arrivals[-1].at_us + 10).traffic
        shipped.append(sum(seen.bytes for seen in traffic.values()))
    assert 0 < shipped[0] < shipped[1] / 2


def test_the_judge_of_the_demo_sees_a_missing_answer() -> None:
    demo = SitesDemo(seconds=2)
    streams = {name: in_microseconds(table, "ts") for name, table in demo.packets().items()}
    (query,) = parse_pipeline(demo.pipeline()).queries
    batch = {name: [Tuple(row["ts"], row) for row in table.to_pylist()] for name, table in streams.items()}
    rows = run(query, [batch], flush=True).rows
    names = [output.name for output in query.select]
    answers = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    assert len(rows) > 5
    assert verdict(demo, streams, answers).holds
    found = verdict(demo, streams, answers.slice(1))
    assert (found.missing, found.extra) == (1, 0)


@pytest.mark.spark
@pytest.mark.variant
def test_the_demo_ends_with_the_bytes_and_the_verdict(tmp_path: Path) -> None:
    """Each plan at three sites, with a Spark of its own each."""
    out = io.StringIO()
    assert show_sites_demo(SMALL, tmp_path, Console(file=out, width=120), StopRequest())
    shown = out.getvalue()
    assert "bytes across the links" in shown
    assert "of what the best single plan ships" in shown
    assert shown.count("the same ") >= 2
    assert "wrong" not in shown
