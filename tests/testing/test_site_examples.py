"""The examples of examples/sites in process: DuckDB's answers by the advised plan, at the simulated bytes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.paths import EXAMPLES
from tests.plan.sites.semijoin.multiway.test_at_site import until_all_has_left
from tests.testing.test_sites import Play
from watersmeet.lab.wan.arrivals import arrivals_of
from watersmeet.lab.wan.feed import feeds_of
from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork
from watersmeet.lab.wan.semijoin.run import Settings, execute
from watersmeet.oracle.oracle import Tuple, bag
from watersmeet.plan.sites.advice import SiteOption, advise_sites
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.statistics import read_statistics
from watersmeet.query import Query
from watersmeet.query.values import timestamp_us
from watersmeet.sites.choose_plan import programs_by
from watersmeet.sql import parse_pipeline

INTERVAL_S = 60.0  # for the simulator, which looks at every interval
CASES = {
    "semijoin-sensors": (
        "semijoin, tree",
        """SELECT t.sid, h.sid, l.sid, t.rid, t.celsius, h.percent, l.lux, t.note,
             epoch_us(greatest(t.ts, h.ts, l.ts))
           FROM temperature t, humidity h, light l WHERE t.rid = h.rid AND h.rid = l.rid
           AND epoch_us(greatest(t.ts, h.ts, l.ts)) - epoch_us(least(t.ts, h.ts, l.ts)) <= 900000000""",
    ),
    "semijoin-packets": (
        "semijoin",
        """SELECT s1.id, s2.id, s3.id, s1.dest, s1.body, s3.body, epoch_us(greatest(s1.ts, s2.ts, s3.ts))
           FROM s1, s2, s3 WHERE s1.dest = s2.dest AND s2.dest = s3.dest
           AND epoch_us(greatest(s1.ts, s2.ts, s3.ts)) - epoch_us(least(s1.ts, s2.ts, s3.ts))
             <= 3600000000""",
    ),
    "semijoin-news": (
        "semijoin",
        """SELECT a.id, r.id, a.title, r.title, epoch_us(greatest(a.ts, r.ts)) FROM ap a, reuters r
           WHERE a.keywords = r.keywords
           AND abs(epoch_us(a.ts) - epoch_us(r.ts)) <= 86400000000""",
    ),
    "pmjoin-example-2": (
        "distributed, Algorithm 1",
        """SELECT s0.id, s1.id, s2.id, s3.id, s4.id, epoch_us(greatest(s0.ts, s1.ts, s2.ts, s3.ts, s4.ts))
           FROM s0, s1, s2, s3, s4 WHERE s0.a = s1.a AND s0.b = s2.b AND s2.c = s3.c AND s0.d = s4.d
           AND epoch_us(greatest(s0.ts, s1.ts, s2.ts, s3.ts, s4.ts))
             - epoch_us(least(s0.ts, s1.ts, s2.ts, s3.ts, s4.ts)) <= 10000000""",
    ),
}


FIRST, *OTHERS = CASES


@pytest.mark.parametrize("name", [FIRST, *(pytest.param(one, marks=pytest.mark.variant) for one in OTHERS)])
def test_an_example_is_exact_at_the_simulated_bytes(name: str, tmp_path: Path) -> None:
    wanted, expected = CASES[name]
    query, option = advised(EXAMPLES / "sites" / name / "pipeline.sql", wanted)
    script = tmp_path / "make_tuples.py"
    script.write_text((EXAMPLES / "sites" / name / "make_tuples.py").read_text())
    subprocess.run([sys.executable, str(script)], check=True)
    streams = {stream.name: tuples_of(tmp_path / "data" / stream.name) for stream in query.streams}
    play = Play(query, programs_by(query, option), streams, random.Random(1))
    found = play.to_the_end()
    assert bag(found) == bag(answers_of(query, tmp_path, expected))
    assert len(found) > 20
    measured = {way: size for way, size in play.run.bytes_by_link.items() if size}
    assert measured == pytest.approx(simulated(query, option, streams))


def advised(file: Path, wanted: str) -> tuple[Query, SiteOption]:
    """The query of an example, and the cheapest plan by the beginning of its name."""
    (query,) = parse_pipeline(file.read_text(), file=str(file)).queries
    statistics = read_statistics(file.with_suffix(".stats.json"))
    advice = advise_sites(query, statistics, interval_s=INTERVAL_S)
    return query, next(option for option in advice.options if option.name.startswith(wanted))


def tuples_of(folder: Path) -> list[Tuple]:
    rows = [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    return [Tuple(timestamp_us(row.pop("ts")), row) for row in rows]


def answers_of(query: Query, folder: Path, expected: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as database:
        for stream in query.streams:
            files = folder / "data" / stream.name / "*.parquet"
            database.execute(f"CREATE VIEW {stream.name} AS FROM read_parquet('{files}')")
        return database.execute(expected).fetchall()


def simulated(
    query: Query, option: SiteOption, streams: Mapping[str, list[Tuple]]
) -> dict[tuple[str, str], float]:
    """The bytes on each link for the same tuples, as the lab has them."""
    if isinstance(option.plan, SemijoinPlan):
        assert option.model is not None
        feeds = until_all_has_left(feeds_of(query, streams), option.model)
        settings = Settings(heartbeats=True, delay_us=0, queueing=False)
        crossed = execute(option.plan, option.model, feeds, settings).ledger.crossed
        return {way: spent.bytes for way, spent in crossed.items() if spent.bytes}
    arrivals = arrivals_of(query, streams)
    network = PmjoinNetwork(query, option.plan, keep_answers=False, start_us=arrivals[0].at_us)
    traffic = network.run(arrivals, until_us=arrivals[-1].at_us + 10).traffic
    return {way: seen.bytes for way, seen in traffic.items()}
