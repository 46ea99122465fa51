"""The screen of `watersmeet sites`: what crossed each link, and what waits where."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from watersmeet.cli.sites.show_sites import SiteReport, link_lines, render_sites


def progress(site: str, **facts: Any) -> dict[str, Any]:
    """An event of `run --site`."""
    sent = facts.pop("sent", [])
    own = {"site": site, "sent": sent, "read": facts.pop("read", {}), "delay_s": facts.pop("delay_s", None)}
    totals = {f"total_{name}": facts.get(name, 0) for name in ("batches", "rows", "late", "answers")}
    return {"event": "progress", "query": f"out at {site}", "batch_id": 1, "site": own, **totals}


def sent(to: str, batch: int) -> dict[str, Any]:
    sizes = {"rows": 1200, "bytes": 9600.0, "chunk_bytes": 20000, "framed_bytes": 25000, "messages": 7}
    times = {"first_us": 10_000_000, "last_us": 14_000_000 + batch}
    return {"to": to, "batch": batch, **sizes, **times}


def shown(*reports: SiteReport) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(render_sites(reports, "pipeline.sql", {("out", "paris", "oslo"): 2500.0}))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_waits_on_a_link_is_said_of_its_reader() -> None:
    paris, oslo, rome = (SiteReport(name) for name in ("paris", "oslo", "rome"))
    assert paris.note(progress("paris", sent=[sent("oslo", 15), sent("rome", 9)], rows=5000, batches=16))
    assert oslo.note(progress("oslo", read={"paris": 12}, answers=40, delay_s=2.5))
    assert not oslo.note({"event": "start"})
    assert rome.note(progress("rome", read={"paris": -1}))
    assert [line.waiting for line in link_lines([paris, oslo, rome])] == [
        "oslo is at batch 12 of 15",
        "rome has not read yet",
    ]
    text = shown(paris, oslo, rome)
    assert (
        "paris -> oslo  1,200     10,000  9,600   20,000  25,000         7  oslo is at batch 12 of 15" in text
    )
    assert "paris -> rome  1,200          -" in text, "what the plan says nothing of"
    assert "2.5 s" in text
    oslo.note(progress("oslo", read={"paris": 15}))
    assert link_lines([paris, oslo])[0].waiting == ""


def test_a_site_sums_over_its_queries() -> None:
    paris = SiteReport("paris")
    paris.note(progress("paris", rows=5, batches=1, answers=2, delay_s=1.0))
    paris.note({**progress("paris", rows=6, batches=1, answers=3, delay_s=3.0), "query": "more at paris"})
    assert paris.pretty() == "paris: 2 batches, 11 rows, 0 late, 5 answers, 3.0 s after their events"
