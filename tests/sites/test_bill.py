"""The bill: counted from the links' own files, beside the prediction."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.plan.sites.advice import SiteOption
from watersmeet.plan.sites.plan_tree import MJoin, StreamLeaf, links
from watersmeet.sites.bill import draw_up
from watersmeet.sql import bind_query
from watersmeet.testing import declare
from watersmeet.testing.sites import SitesInProcess


def test_a_link_is_billed_for_what_is_in_its_files(tmp_path: Path) -> None:
    streams = [declare(name, "k BIGINT, ts TIMESTAMP", event_time="ts") for name in "ab"]
    query = bind_query("SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k", streams)
    plan = MJoin((StreamLeaf("a", "paris", 2.0, 8.0), StreamLeaf("b", "oslo", 1.0, 8.0)), "oslo", 1.0, 16.0)
    sites = SitesInProcess(query, plan)
    for second in (0, 7, 9):
        sites.sites["paris"].step({"a": [(1, f"00:00:0{second}"), (2, f"00:00:0{second}")]})
    folder = tmp_path / "paris-to-oslo"
    folder.mkdir()
    for number, file in enumerate(sites.links["paris", "oslo"].files):
        pq.write_table(pa.Table.from_batches([file]), folder / f"{number}.parquet")
    (folder / "_watersmeet").mkdir()
    option = SiteOption("simple", "all at oslo", plan, links(plan))
    bill = draw_up("q", option, sites.programs.values(), {("paris", "oslo"): str(folder)})
    (link,) = bill.links
    assert (bill.seconds, link.crossed.total_rows, link.crossed.priced_bytes) == (9.0, 6, 48.0)
    assert link.crossed.files == 3
    assert link.file_bytes == sum(file.stat().st_size for file in folder.glob("*.parquet"))
    (row,) = bill.to_json()["links"]
    assert row["predicted_bytes"] == pytest.approx(9 * 16.0)
    head, _, line = bill.pretty().splitlines()
    assert head == "q: simple, all at oslo, 9 s of event time"
    assert line.split()[:6] == ["paris", "->", "oslo", "144", "48", "6"]


def test_a_link_on_another_file_system_is_said_to_be_left_out() -> None:
    streams = [declare(name, "k BIGINT, ts TIMESTAMP", event_time="ts") for name in "ab"]
    query = bind_query("SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k", streams)
    plan = MJoin((StreamLeaf("a", "paris", 2.0, 8.0), StreamLeaf("b", "oslo", 1.0, 8.0)), "oslo", 1.0, 16.0)
    programs = SitesInProcess(query, plan).programs
    option = SiteOption("simple", "all at oslo", plan, links(plan))
    bill = draw_up("q", option, programs.values(), {("paris", "oslo"): "hdfs:///links/paris-to-oslo"})
    assert bill.links == ()
    assert "paris -> oslo is on another file system" in bill.pretty()
