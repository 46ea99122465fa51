"""The bill of a run: what has crossed each link, as its sender has counted, beside the prediction.

Predicted is what the plan costs a second, over the event time of the tuples that have crossed. The bytes are
those of the rows at the sizes of the statistics: what the plan predicts, and what the simulator counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import DataError
from watersmeet.plan.sites.advice import SiteOption
from watersmeet.plan.sites.plan_tree import number
from watersmeet.spark.sites.link_record import NEW, LinkCounts, Sent, record_name, sent_from_json
from watersmeet.spark.sites.plan_tasks import Program
from watersmeet.spark.storage.paths import local_path

Way = tuple[str, str]


@dataclass(frozen=True)
class LinkBill:
    """One link."""

    way: Way
    predicted_per_s: float
    counts: LinkCounts
    priced_bytes: float  # of the rows, at the sizes of the statistics
    unread: int | None = None  # batches that the other site has not read yet, where that is known


@dataclass(frozen=True)
class Bill:
    """All links of a query, with the plan that ran."""

    query: str
    option: str
    links: tuple[LinkBill, ...]
    elsewhere: tuple[Way, ...] = ()  # links whose senders have their checkpoints on no disk of this machine

    @property
    def seconds(self) -> float:
        """Of event time, between the first and the last tuple that crossed any link."""
        first = [link.counts.first_us for link in self.links if link.counts.first_us is not None]
        last = [link.counts.last_us for link in self.links if link.counts.last_us is not None]
        return (max(last) - min(first)) / 1e6 if first and last else 0.0

    @property
    def priced_bytes(self) -> float:
        """What has crossed all links, at the sizes of the statistics."""
        return sum(link.priced_bytes for link in self.links)

    @property
    def rows(self) -> int:
        """The rows that have crossed any link."""
        return sum(link.counts.total_rows for link in self.links)

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "plan": self.option,
            "event_seconds": self.seconds,
            "links": [
                {
                    "from": link.way[0],
                    "to": link.way[1],
                    "predicted_bytes": link.predicted_per_s * self.seconds,
                    "rows": link.counts.total_rows,
                    "bytes": link.priced_bytes,
                    "chunk_bytes": link.counts.total_chunk_bytes,
                    "mark_bytes": link.counts.mark_bytes,
                    "messages": link.counts.messages,
                    "framed_bytes": link.counts.framed_bytes,
                }
                for link in self.links
            ],
        }

    def pretty(self) -> str:
        """A table, one link a line."""
        head = ("link", "predicted", "bytes", "rows", "shipped", "framed", "messages")
        rows = [head, *(self._row(link) for link in self.links)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = [f"{self.query}: {self.option}, {number(self.seconds)} s of event time"]
        for row in rows:
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
            ]
            lines.append("  " + "  ".join(cells))
        for source, target in self.elsewhere:
            lines.append(
                f"  {source} -> {target} is counted at {source}, whose checkpoint is on another file system"
            )
        return "\n".join(lines)

    def _row(self, link: LinkBill) -> tuple[str, ...]:
        seen = link.counts
        return (
            f"{link.way[0]} -> {link.way[1]}",
            number(link.predicted_per_s * self.seconds),
            number(link.priced_bytes),
            f"{seen.total_rows:,}",
            f"{seen.total_chunk_bytes:,}",
            f"{seen.framed_bytes:,}",
            f"{seen.messages:,}",
        )


def draw_up(query: str, option: SiteOption, programs: Iterable[Program], root: str) -> Bill:
    """The bill of a query, given the checkpoint of all sites."""
    predicted, links, elsewhere = option.by_link(), [], []
    for program in programs:
        for target in program.targets:
            way = (program.site, target)
            sent = sent_so_far(root, query, way)
            if sent is None:
                elsewhere.append(way)
                continue
            sends = [send for send in program.sends if send.target == target]
            priced = sent.total.priced_bytes(sends)
            links.append(LinkBill(way, predicted.get(way, 0.0), sent.total, priced))
    return Bill(query, option.name, tuple(links), tuple(elsewhere))


def sent_so_far(root: str, query: str, way: Way) -> Sent | None:
    """What a site's checkpoint says of a link; None if it is on no disk of this machine."""
    folder = local_path(root)
    if folder is None:
        return None
    file = folder / "sites" / way[0].lower() / query.lower() / record_name(way[1])
    try:
        return sent_from_json(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return NEW
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{file} is damaged ({error}): put it back from a copy") from None
