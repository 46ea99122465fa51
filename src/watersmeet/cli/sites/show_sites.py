"""All sites on one screen: what each has done, what has crossed each link, and what waits where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from watersmeet.cli.terminal.progress_display import count, duration
from watersmeet.query.byte_size import format_bytes

RUNNING = "running"
Predicted = Mapping[tuple[str, str, str], float]  # bytes/s by query and link
NOTHING_PREDICTED: Predicted = MappingProxyType({})


@dataclass
class SiteReport:
    """What a site's process has said of its queries, by their names."""

    site: str
    queries: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # the newest progress of each
    state: str = RUNNING

    def note(self, event: Mapping[str, Any]) -> bool:
        """Takes an event that the process has printed; whether it is the progress of a query."""
        if "batch_id" not in event:
            return False
        self.queries[str(event.get("query", ""))] = event
        return True

    def total(self, name: str) -> int:
        """A number that is summed over queries."""
        return sum(int(each.get(name, 0)) for each in self.queries.values())

    @property
    def delay_s(self) -> float | None:
        """The mean delay of the newest answers, of the query with the longest."""
        found = [each["site"]["delay_s"] for each in self.queries.values() if each.get("site")]
        return max((delay for delay in found if delay is not None), default=None)

    def pretty(self) -> str:
        """One line."""
        parts = [
            f"{count(self.total('total_batches'))} batches",
            f"{count(self.total('total_rows'))} rows",
            f"{count(self.total('total_late'))} late",
            f"{count(self.total('total_answers'))} answers",
        ]
        if self.delay_s is not None:
            parts.append(f"{duration(int(self.delay_s * 1e6))} after their events")
        state = [] if self.state == RUNNING else [self.state]
        return "; ".join([f"{self.site}: {', '.join(parts)}", *state])


@dataclass(frozen=True)
class LinkLine:
    """A link of a query: what its sender says, and what its reader says."""

    query: str
    source: str
    target: str
    sent: Mapping[str, Any]
    read: int | None  # the newest batch that was read with all before it; -1: none; None: nobody says
    seconds: float = 0.0  # of event time, of all rows that have crossed any link of the query

    def predicted(self, rates: Predicted) -> str:
        """The bytes that the plan predicts for these seconds, where it is known."""
        rate = rates.get((self.query, self.source, self.target))
        return "-" if rate is None else f"{rate * self.seconds:,.0f}"

    @property
    def waiting(self) -> str:
        """What is on the link and not read yet."""
        if self.read is None or self.read < 0:
            return f"{self.target} has not read yet"
        behind = int(self.sent["batch"]) - self.read
        return "" if behind <= 0 else f"{self.target} is at batch {self.read} of {self.sent['batch']}"


def link_lines(reports: Sequence[SiteReport]) -> list[LinkLine]:
    """A line for each link that something was put on."""
    by_site = {report.site: report for report in reports}
    found = []
    for report in reports:
        for name, progress in sorted(report.queries.items()):
            for sent in (progress.get("site") or {}).get("sent", ()):
                read = _read(by_site.get(sent["to"]), _query_of(name), report.site)
                found.append(LinkLine(_query_of(name), report.site, sent["to"], sent, read))
    seconds = {line.query: _seconds(found, line.query) for line in found}
    return [replace(line, seconds=seconds[line.query]) for line in found]


def _seconds(lines: Sequence[LinkLine], query: str) -> float:
    sent = [line.sent for line in lines if line.query == query and line.sent.get("last_us") is not None]
    if not sent:
        return 0.0
    return float(max(one["last_us"] for one in sent) - min(one["first_us"] for one in sent)) / 1e6


def render_sites(
    reports: Sequence[SiteReport], title: str = "", predicted: Predicted = NOTHING_PREDICTED
) -> RenderableType:
    """The screen."""
    sites = Table(box=None, pad_edge=False, header_style="bold")
    sites.add_column("site")
    for name in ("batches", "rows", "late", "answers", "delay", "state", ""):
        sites.add_column(name, justify="right")
    for report in reports:
        delay = "-" if report.delay_s is None else duration(int(report.delay_s * 1e6))
        sites.add_row(
            Text(report.site),
            *(count(report.total(f"total_{name}")) for name in ("batches", "rows", "late", "answers")),
            delay,
            format_bytes(report.total("state_bytes")),
            report.state,
        )
    lines = link_lines(reports)
    several = len({line.query for line in lines}) > 1
    links = Table(box=None, pad_edge=False, header_style="bold")
    links.add_column("link")
    for name in ("rows", "predicted", "bytes", "shipped", "framed", "messages"):
        links.add_column(name, justify="right")
    links.add_column("waiting")
    for line in lines:
        way = f"{line.source} -> {line.target}"
        links.add_row(
            Text(f"{line.query}: {way}" if several else way),
            f"{line.sent['rows']:,}",
            line.predicted(predicted),
            f"{line.sent['bytes']:,.0f}",
            *(f"{line.sent[name]:,}" for name in ("chunk_bytes", "framed_bytes", "messages")),
            Text(line.waiting, style="yellow"),
        )
    head = [Text(title, style="bold cyan")] if title else []
    return Group(*head, sites, Text(), links)


def _query_of(job: str) -> str:
    """A query's name, given that of its part at a site."""
    return job.rpartition(" at ")[0]


def _read(reader: SiteReport | None, query: str, source: str) -> int | None:
    if reader is None:
        return None
    for name, progress in reader.queries.items():
        if _query_of(name) == query:
            read = (progress.get("site") or {}).get("read") or {}
            return read.get(source)
    return None
