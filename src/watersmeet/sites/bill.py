"""The bill of a run: what has crossed each link, counted from the links themselves, beside the prediction.

Predicted is what the plan costs a second, over the event time of the tuples that have crossed. The bytes are
those of the statistics: so many rows of so many bytes, as the simulator counts. Beside them stands what the
rows take as they are shipped, and what the files take on the disk, compressed, marks and all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from watersmeet.plan.sites.advice import SiteOption
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.sites.site_program import SiteProgram
from watersmeet.spark.sites.link_bill import Crossed, crossed
from watersmeet.spark.storage.paths import local_path

Way = tuple[str, str]


@dataclass(frozen=True)
class LinkBill:
    """One link."""

    way: Way
    predicted_per_s: float
    crossed: Crossed
    file_bytes: int


@dataclass(frozen=True)
class Bill:
    """All links of a query, with the plan that ran."""

    query: str
    option: str
    links: tuple[LinkBill, ...]
    elsewhere: tuple[Way, ...] = ()  # links that are on no disk of this machine

    @property
    def seconds(self) -> float:
        """Of event time, between the first and the last tuple that crossed any link."""
        first = [link.crossed.first_us for link in self.links if link.crossed.first_us is not None]
        last = [link.crossed.last_us for link in self.links if link.crossed.last_us is not None]
        return (max(last) - min(first)) / 1e6 if first and last else 0.0

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
                    "rows": link.crossed.total_rows,
                    "bytes": link.crossed.priced_bytes,
                    "chunk_bytes": link.crossed.chunk_bytes,
                    "mark_bytes": link.crossed.mark_bytes,
                    "files": link.crossed.files,
                    "file_bytes": link.file_bytes,
                }
                for link in self.links
            ],
        }

    def pretty(self) -> str:
        """A table, one link a line."""
        head = ("link", "predicted", "bytes", "rows", "shipped", "on disk", "files")
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
            lines.append(f"  {source} -> {target} is on another file system and is not counted here")
        return "\n".join(lines)

    def _row(self, link: LinkBill) -> tuple[str, ...]:
        seen = link.crossed
        return (
            f"{link.way[0]} -> {link.way[1]}",
            number(link.predicted_per_s * self.seconds),
            number(seen.priced_bytes),
            f"{seen.total_rows:,}",
            f"{seen.chunk_bytes:,}",
            f"{link.file_bytes:,}",
            f"{seen.files:,}",
        )


def draw_up(
    query: str, option: SiteOption, programs: Iterable[SiteProgram], folders: Mapping[Way, str]
) -> Bill:
    """The bill of a query, given where each of its links is."""
    predicted, links, elsewhere = option.by_link(), [], []
    for program in programs:
        for target in program.targets:
            way = (program.site, target)
            folder = local_path(folders[way])
            if folder is None:
                elsewhere.append(way)
                continue
            links.append(_link(way, predicted.get(way, 0.0), program, folder))
    return Bill(query, option.name, tuple(links), tuple(elsewhere))


def _link(way: Way, predicted: float, program: SiteProgram, folder: Path) -> LinkBill:
    files = sorted(folder.glob("*.parquet"))
    batches = (batch for file in files for batch in pq.read_table(file).combine_chunks().to_batches())
    sends = [send for send in program.sends if send.target == way[1]]
    return LinkBill(way, predicted, crossed(sends, batches), sum(file.stat().st_size for file in files))
