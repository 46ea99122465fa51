"""The bill: what senders have counted, beside the prediction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from watersmeet.errors import DataError
from watersmeet.plan.sites.advice import SiteOption
from watersmeet.plan.sites.plan_tree import MJoin, StreamLeaf, links
from watersmeet.plan.sites.site_program import SiteProgram
from watersmeet.query import Query
from watersmeet.sites.bill import draw_up
from watersmeet.spark.sites.link_record import LinkCounts, Sent, sent_to_json
from watersmeet.sql import bind_query
from watersmeet.testing import declare
from watersmeet.testing.sites import SitesInProcess


def two_sites() -> tuple[Query, SiteOption]:
    streams = [declare(name, "k BIGINT, ts TIMESTAMP", event_time="ts") for name in "ab"]
    query = bind_query("SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k", streams)
    plan = MJoin((StreamLeaf("a", "paris", 2.0, 8.0), StreamLeaf("b", "oslo", 1.0, 8.0)), "oslo", 1.0, 16.0)
    return query, SiteOption("simple", "all at oslo", plan, links(plan))


def programs_of(query: Query, option: SiteOption) -> list[SiteProgram]:
    assert isinstance(option.plan, MJoin)
    return list(SitesInProcess(query, option.plan).programs.values())


def test_a_link_is_billed_for_what_its_sender_has_counted(tmp_path: Path) -> None:
    query, option = two_sites()
    assert isinstance(option.plan, MJoin)
    sites = SitesInProcess(query, option.plan)
    sent = Sent()
    for number, second in enumerate((0, 7, 9)):
        sites.sites["paris"].step({"a": [(1, f"00:00:0{second}"), (2, f"00:00:0{second}")]})
        counts = LinkCounts(
            rows={"a>0.0": 2},
            chunk_bytes={"a>0.0": 100},
            framed_bytes=300,
            batches=1,
            messages=2,
            first_us=second * 10**6,
            last_us=second * 10**6,
        )
        sent = sent.with_batch(number, counts).with_batch(number, counts)
    folder = tmp_path / "sites" / "paris" / "q" / "links"
    folder.mkdir(parents=True)
    (folder / "oslo.json").write_text(json.dumps(sent_to_json(sent)))
    bill = draw_up("q", option, sites.programs.values(), str(tmp_path))
    (link,) = bill.links
    assert (bill.seconds, link.counts.total_rows, link.priced_bytes) == (9.0, 6, 48.0)
    assert sites.links["paris", "oslo"].counts.rows == link.counts.rows
    (row,) = bill.to_json()["links"]
    assert row["predicted_bytes"] == pytest.approx(9 * 16.0)
    head, _, line = bill.pretty().splitlines()
    assert head == "q: simple, all at oslo, 9 s of event time"
    assert line.split() == ["paris", "->", "oslo", "144", "48", "6", "300", "900", "6"]


def test_a_link_that_nothing_has_crossed_costs_nothing(tmp_path: Path) -> None:
    query, option = two_sites()
    (link,) = draw_up("q", option, programs_of(query, option), str(tmp_path)).links
    assert (link.priced_bytes, link.counts) == (0.0, LinkCounts())


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    query, option = two_sites()
    folder = tmp_path / "sites" / "paris" / "q" / "links"
    folder.mkdir(parents=True)
    (folder / "oslo.json").write_text("{")
    with pytest.raises(DataError, match=r"oslo\.json is damaged"):
        draw_up("q", option, programs_of(query, option), str(tmp_path))


def test_a_checkpoint_on_another_file_system_is_said_to_be_left_out() -> None:
    query, option = two_sites()
    bill = draw_up("q", option, programs_of(query, option), "hdfs:///checkpoint")
    assert bill.links == ()
    assert "paris -> oslo is counted at paris" in bill.pretty()
