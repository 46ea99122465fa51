"""What has run, beside what was predicted and simulated: the bytes a second on each link.

The plan that ran is known by its fingerprint, which every site's part of the checkpoint has. It is looked up
among the options of the advice, so the statistics must be those of the run. Of plans that took over from each
other it is the newest, with the statistics that it follows from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.plan.sites.advice import SiteAdvice, SiteOption, advise_sites
from watersmeet.plan.sites.plan_tree import number
from watersmeet.sites.bill import Bill, Way, draw_up
from watersmeet.sites.choose_plan import programs_by
from watersmeet.sites.plan_changes import changes_below
from watersmeet.spark.storage.paths import local_path

RECORD = "site.json"


@dataclass(frozen=True)
class MeasuredRun:
    """A plan that has run, with its bill; `simulated` is bytes a second by link, where it was simulated."""

    option: SiteOption
    bill: Bill
    simulated: Mapping[Way, float] | None = None

    def per_second(self, way: Way) -> float:
        """The bytes a second of event time that crossed a link, at the sizes of the statistics."""
        seconds = self.bill.seconds
        found = next((link.priced_bytes for link in self.bill.links if link.way == way), 0.0)
        return found / seconds if seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.option.name,
            "event_seconds": self.bill.seconds,
            "links": [
                {
                    "from": way[0],
                    "to": way[1],
                    "predicted_bytes_per_s": self.option.by_link().get(way, 0.0),
                    "simulated_bytes_per_s": None if self.simulated is None else self.simulated.get(way, 0.0),
                    "measured_bytes_per_s": self.per_second(way),
                }
                for way in self._ways
            ],
        }

    def pretty(self) -> str:
        """A table, one link a line."""
        seconds = self.bill.seconds
        head = ("bytes/s", "predicted", "simulated", "measured", "shipped", "framed", "rows/s")
        rows = [head, *(self._row(way) for way in self._ways), self._total()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = [f"measured: {self.option.name}, {number(seconds)} s of event time"]
        for row in rows:
            cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  " + "  ".join([row[0].ljust(widths[0]), *cells]))
        if self.simulated is None:
            lines.append("  --simulate 60s fills in what the simulator makes of this plan")
        return "\n".join(lines)

    @property
    def _ways(self) -> list[Way]:
        return list(dict.fromkeys([*self.option.by_link(), *(link.way for link in self.bill.links)]))

    def _row(self, way: Way) -> tuple[str, ...]:
        link = next((link for link in self.bill.links if link.way == way), None)
        seconds = self.bill.seconds or 1.0
        rest = (0, 0, 0)
        if link is not None:
            rest = (link.counts.total_chunk_bytes, link.counts.framed_bytes, link.counts.total_rows)
        simulated = "-" if self.simulated is None else number(self.simulated.get(way, 0.0))
        return (
            f"{way[0]} -> {way[1]}",
            number(self.option.by_link().get(way, 0.0)),
            simulated,
            number(self.per_second(way)),
            *(number(each / seconds) for each in rest),
        )

    def _total(self) -> tuple[str, ...]:
        seconds, links = self.bill.seconds or 1.0, self.bill.links
        simulated = "-" if self.simulated is None else number(sum(self.simulated.values()))
        return (
            "all",
            number(self.option.bytes_per_s),
            simulated,
            number(self.bill.priced_bytes / seconds),
            number(sum(link.counts.total_chunk_bytes for link in links) / seconds),
            number(sum(link.counts.framed_bytes for link in links) / seconds),
            number(self.bill.rows / seconds),
        )


def measured_run(advice: SiteAdvice, name: str, root: str) -> MeasuredRun:
    """What has run of a query, given the checkpoint of all sites."""
    generation = changes_below(root).generations(name)[-1]
    if generation.statistics is not None:
        advice = advise_sites(advice.query, generation.statistics, interval_s=advice.interval_s)
    part = generation.part(name)
    fingerprint = _fingerprint(root, part)
    for option in advice.options:
        programs = programs_by(advice.query, option)
        if any(program.fingerprint == fingerprint for program in programs.values()):
            return MeasuredRun(option, draw_up(part, option, programs.values(), root))
    raise ConfigurationError(
        f"--measured: {name} has run by plan {fingerprint}, which is none that these statistics "
        "give. Name those of the run (--stats)"
    )


def _fingerprint(root: str, name: str) -> str:
    """The fingerprint of the plan that a query has run by."""
    folder = local_path(root)
    if folder is None:
        raise ConfigurationError(f"--measured: the checkpoint {root} is on no disk of this machine")
    for file in sorted(folder.glob(f"sites/*/{name.lower()}/{RECORD}")):
        try:
            return str(json.loads(file.read_text(encoding="utf-8"))["plan"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise DataError(f"{file} is damaged ({error}): put it back from a copy") from None
    raise ConfigurationError(
        f"--measured: no site of {name} has run yet with the checkpoint {root}. Run `watersmeet sites` "
        "first, or name another checkpoint (--checkpoint)"
    )
