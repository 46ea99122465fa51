"""Another plan is proposed when it would ship less at the rates measured; all sites agree on it by a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plan.papers import example
from watersmeet.cli.run_request import ALL_SITES, Request
from watersmeet.cli.sites.plans import Plans
from watersmeet.cli.sites.replanner import Replanner, refuse_what_cannot_change
from watersmeet.errors import ConfigurationError, DataError
from watersmeet.plan.sites.advice import advise_sites
from watersmeet.plan.sites.change_over import EVER, Tenure
from watersmeet.plan.statistics import Statistics, write_statistics
from watersmeet.plan.statistics.attribute import AttributeStatistics
from watersmeet.plan.statistics.statistics import StreamStatistics
from watersmeet.query import Query
from watersmeet.sites.plan_changes import ChangedPlan, PlanChanges, plan_changes
from watersmeet.sites.replan import LEAST_ROWS, MONTH_S, Measured, propose, with_rates
from watersmeet.sql import parse_pipeline

SQL = """
CREATE STREAM orders (k BIGINT, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'orders', event_time = 'ts', site = 'paris');
CREATE STREAM paid (k BIGINT, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'paid', event_time = 'ts', site = 'oslo');
CREATE SINK out WITH (format = 'parquet', path = 'out');
INSERT INTO out SELECT o.k FROM orders [RANGE 2 S] AS o, paid [RANGE 5 S] AS p WHERE o.k = p.k;
"""


def two_streams(orders: float, paid: float) -> Statistics:
    keys = {"k": AttributeStatistics(distinct=50, heavy_hitters=((1, orders / 10),))}
    return Statistics(
        {
            "orders": StreamStatistics(orders, 100.0, "paris", keys),
            "paid": StreamStatistics(paid, 100.0, "oslo", {"k": AttributeStatistics(distinct=50)}),
        }
    )


def query_of() -> Query:
    (query,) = parse_pipeline(SQL).queries
    return query


def measured(**rates: float) -> Measured:
    """A hundred seconds at these rates."""
    found = Measured(shipped_before=500.0)
    for second in (0, 40, 100):
        since = {0: 0, 40: 40, 100: 60}[second]
        inputs = [
            {"alias": alias, "rows": int(rate * since) or 7, "max_ts_us": second * 10**6}
            for alias, rate in rates.items()
        ]
        found.note({"inputs": inputs})
    return found


def test_another_plan_is_proposed_when_rates_have_changed() -> None:
    """Orders went to Oslo, as few came; now most tuples are orders, and payments should go to Paris."""
    query, statistics = query_of(), two_streams(10, 100)
    running = "simple, all at oslo"
    now = measured(o=100.0, p=10.0)
    assert now.rates(query) == {"o": 100.0, "p": 10.0}
    found = propose("out", query, statistics, running, now, 500.0 + 100 * 100 * 100, 1.5)
    assert found is not None
    assert found.option.name == "simple, all at paris"
    assert found.shipped_per_s == 10_000.0
    assert found.saving_per_month == pytest.approx((10_000 - 1_000) * MONTH_S)
    assert "at the rates measured simple, all at paris would ship 1,000 bytes/s, 23.33 GB" in (
        found.pretty().replace("At the rates", "at the rates")
    )


def test_a_semijoin_plan_is_proposed_where_few_tuples_match() -> None:
    query = query_of()
    keys = {name: {"k": AttributeStatistics(distinct=count)} for name, count in (("o", 1e5), ("p", 100.0))}
    large = {
        "orders": StreamStatistics(10.0, 10_000.0, "paris", keys["o"]),
        "paid": StreamStatistics(10.0, 10_000.0, "oslo", keys["p"]),
    }
    now = measured(o=100.0, p=100.0)
    shipped = 500.0 + 100 * 100 * 10_000
    found = propose("out", query, Statistics(large), "simple, all at oslo", now, shipped, 1.5)
    assert found is not None
    assert found.option.method == "semijoin"
    assert found.saving_per_month > 10**12


def test_a_plan_stays_while_it_is_about_as_cheap_as_the_best() -> None:
    query, statistics = query_of(), two_streams(10, 100)
    same = measured(o=10.0, p=100.0)
    assert propose("out", query, statistics, "simple, all at oslo", same, 500 + 10 * 100 * 100, 1.5) is None
    near = measured(o=14.0, p=10.0)
    assert propose("out", query, statistics, "simple, all at oslo", near, 500 + 14 * 100 * 100, 1.5) is None
    assert propose("out", query, statistics, "simple, all at oslo", near, 500 + 14 * 100 * 100, 1.2)


def test_too_few_tuples_say_nothing() -> None:
    query = query_of()
    few = measured(o=100.0, p=(LEAST_ROWS - 5) / 100)
    assert few.rates(query) is None
    assert propose("out", query, two_streams(10, 100), "simple, all at oslo", few, 10**9, 1.5) is None


def test_values_keep_their_share_of_a_stream() -> None:
    query, statistics = query_of(), two_streams(10, 100)
    known = with_rates(query, statistics, {"o": 20.0, "p": 50.0})
    assert (known.stream("orders").rate_per_s, known.stream("paid").rate_per_s) == (20.0, 50.0)
    assert known.attribute("orders", "k").heavy_hitters == ((1, 2.0),)
    assert advise_sites(query, known).options


def test_the_plans_of_a_query_end_where_the_next_begins() -> None:
    _, statistics = example("pmjoin-example-1")
    first = ChangedPlan("one", statistics, Tenure(since_us=10, after_us=4))
    second = ChangedPlan("two", statistics, Tenure(since_us=30, after_us=20))
    changes = PlanChanges().with_change("Out", first).with_change("out", second)
    read = plan_changes(changes.to_text(), "plans.json")
    assert read.changes == changes.changes
    assert [(one.number, one.plan, one.tenure) for one in read.generations("OUT")] == [
        (0, None, Tenure(until_us=10)),
        (1, "one", Tenure(10, 30, 4)),
        (2, "two", Tenure(since_us=30, after_us=20)),
    ]
    assert [one.part("Out") for one in read.generations("out")] == ["out", "out@1", "out@2"]
    assert [one.tenure for one in read.generations("other")] == [EVER]


def test_damaged_plans_are_refused() -> None:
    with pytest.raises(DataError, match=r"plans\.json is damaged"):
        plan_changes('{"out": [{}]}', "plans.json")


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    (tmp_path / "pipeline.sql").write_text(SQL)
    write_statistics(two_streams(10, 100), tmp_path / "pipeline.stats.json")
    return Request(file=tmp_path / "pipeline.sql", site=ALL_SITES, plan="simple, all at oslo", replan="auto")


def test_a_change_is_written_for_all_sites_and_the_next_start_knows_it(
    request_: Request, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watersmeet.cli.sites.replanner.CHECK_S", 0.0)
    plans = Plans(request_)
    root = Path(plans.root)
    for site, seen in (("paris", 10**9), ("oslo", 10**9 + 70)):
        part = root / "sites" / site / "out"
        part.mkdir(parents=True)
        (part / "seen.json").write_text(json.dumps({"seen_us": seen}))
    replanner = Replanner(request_, plans)
    for second, rows in ((0, 1), (50, 60), (100, 940)):
        assert replanner.due() == [], "too few tuples so far, which are not forgotten"
        for site, alias, factor in (("paris", "o", 10), ("oslo", "p", 1)):
            item = {"alias": alias, "rows": rows * factor, "max_ts_us": second * 10**6}
            replanner.note({"query": f"out at {site}", "batch_id": second, "inputs": [item]})
    (root / "sites" / "paris" / "out" / "links").mkdir()
    sent: dict[str, Any] = {"number": 3, "previous": 2, "before": {}, "newest": {"rows": {"o>0.0": 10_000}}}
    (root / "sites" / "paris" / "out" / "links" / "oslo.json").write_text(json.dumps(sent))
    changes = replanner.due()
    assert [proposal.option.name for _, proposal in changes] == ["simple, all at paris"]
    assert "simple, all at oslo ships 10,000 bytes/s" in capsys.readouterr().err
    assert replanner.change(changes)
    again = Plans(request_)
    assert [(plan.label, plan.option.name) for plan in again.plans] == [
        ("out", "simple, all at oslo"),
        ("out@1", "simple, all at paris"),
    ]
    new = again.plans[1].generation.tenure
    assert new == Tenure(since_us=10**9 + 70 + 5 * 10**6 + 1, after_us=10**9 + 70)
    assert [plan.label for plan in again.newest] == ["out@1"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("paid [RANGE 5 S]", "paid [UNBOUNDED]"), "has no end, so the plan cannot change"),
        (("SELECT o.k", "SELECT DISTINCT o.k"), "a SELECT DISTINCT counts several answers as one"),
        (("SELECT o.k", "SELECT count(*) AS n"), "an aggregate counts several answers as one"),
        (("path = 'orders',", "path = 'orders', cleanSource = 'delete',"), "stream orders has cleanSource"),
        ((", event_time = 'ts', site = 'oslo'", ", site = 'oslo'"), "stream paid has no event_time"),
        (("format = 'parquet', path = 'paid'", "format = 'rate'"), "stream paid is read from rate"),
    ],
)
def test_what_could_lose_or_repeat_answers_is_refused(
    request_: Request, change: tuple[str, str], said: str
) -> None:
    request_.file.write_text(SQL.replace(*change))
    with pytest.raises(Exception, match=said):
        refuse_what_cannot_change(request_, Plans(request_))


def test_input_that_ends_is_refused(request_: Request) -> None:
    with pytest.raises(ConfigurationError, match="--replan auto is for streams that go on"):
        refuse_what_cannot_change(replace(request_, available_now=True), Plans(request_))
