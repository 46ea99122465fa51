"""Random queries across sites through Spark, by any plan: the oracle's bag, the simulator's bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sites.random_sites import draw_sites
from tests.sites.test_run_site import FINITE, follow_all
from tests.testing.test_site_examples import simulated
from watersmeet.oracle.oracle import bag
from watersmeet.plan.statistics import read_statistics
from watersmeet.session import Session
from watersmeet.sites.bill import draw_up
from watersmeet.sites.choose_plan import choose_plan, programs_by
from watersmeet.sites.run_site import SiteRequest, start_site

# The seed, how many sites, what is asked, and the plan by the beginning of its name.
FIRST, *OTHERS = (
    (2, 2, "aggregate", "simple"),
    (1, 2, "distinct", "semijoin, linear, SM-S1 and SM-D2"),
    (3, 2, "plain", "pmjoin, by rate"),
    (4, 2, "plain", "pmjoin, by hash"),
    (5, 3, "plain", "pmjoin, by range"),
    (6, 4, "plain", "distributed, Algorithm 1"),
    (7, 3, "plain", "distributed, best plan"),
    (8, 3, "plain", "semijoin, tree"),
    (9, 2, "plain", "semijoin, linear, SP-S and SP-D"),
    (10, 2, "plain", "semijoin, linear, SM-S1 and SM-D1"),
    (11, 2, "plain", "semijoin, linear, SM-S2 and SM-D2"),
    (12, 2, "plain", "semijoin, linear, SM-S1 and SM-B"),
    (13, 3, "plain", "semijoin, linear, any"),
    (14, 3, "distinct", "distributed"),
    (15, 3, "aggregate", "semijoin"),
    (16, 2, "distinct", "pmjoin"),
)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "sites", "kind", "plan"),
    [FIRST, *(pytest.param(*one, marks=pytest.mark.variant) for one in OTHERS)],
)
def test_a_random_query_gives_the_oracles_bag_at_the_simulators_bytes(
    spark: SparkSession, tmp_path: Path, seed: int, sites: int, kind: str, plan: str
) -> None:
    case, session = draw_sites(tmp_path, seed, kind, sites), Session(spark)
    file = case.file
    option = choose_plan(case.query, read_statistics(file.with_suffix(".stats.json")), plan, command="")
    programs = programs_by(case.query, option)
    requests = [SiteRequest(file=file, site=site, plan=option.name) for site in programs]
    follow_all([start_site(session, request, FINITE) for request in requests])
    expected = bag(case.expected)
    assert bag(case.found) == expected
    assert expected
    bill = draw_up("out", option, programs.values(), str(file.parent / ".watersmeet" / "pipeline"))
    crossed = {link.way: link.priced_bytes for link in bill.links if link.priced_bytes}
    assert crossed == pytest.approx(simulated(case.query, option, case.streams))
    assert crossed
