"""Advice on sites as text, JSON and a picture: what would cross each link, in a second and in a month.

The advice itself is `plan/sites/advice.py`'s. A month has thirty days.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from watersmeet.plan.explain.notes import notes_on_statistics, slow_links
from watersmeet.plan.explain.picture import picture_plan, picture_semijoin
from watersmeet.plan.explain.svg import draw
from watersmeet.plan.sites.advice import (
    AS_CHEAP,
    SITE_PARTITIONS,
    SiteAdvice,
    SiteOption,
    SitePlan,
    advise_sites,
)
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.sites.semijoin.model import DEFAULT_INTERVAL_S
from watersmeet.plan.sites.semijoin.plan import SemijoinPlan
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query

VERSION = 1
MONTH_S = 30 * 86_400
SAME = 1e-9
ONE_SITE = "plans that find answers at several sites are left out: DISTINCT and aggregates need all at one"


@dataclass(frozen=True)
class SiteExplanation:
    """An advice with what a reader should know besides."""

    advice: SiteAdvice
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The documented form; keys are only ever added."""
        chosen = self.advice.chosen
        return {
            "version": VERSION,
            "sites": self.advice.sites,
            "chosen": _option_json(chosen),
            "baseline": _option_json(self.advice.baseline),
            "streams": [
                {**load.to_json(), "bytes_per_month": load.bytes_per_s * MONTH_S} for load in chosen.loads
            ],
            "plan": chosen.plan.to_json(),
            "options": [_option_json(option) for option in self.advice.options],
            "notes": list(self.notes),
        }

    def pretty(self) -> str:
        """All of it for the terminal."""
        chosen = self.advice.chosen
        parts = [
            "\n".join(_head(self.advice)),
            "\n".join(["across the links", *_table(_link_rows(chosen))]),
            "\n".join(["options, the cheapest first", *_table(_option_rows(self.advice))]),
            "\n".join(["plan", *(f"  {line}" for line in _plan_lines(chosen.plan))]),
        ]
        if self.notes:
            parts.append("\n".join(["notes", *(f"  {note}" for note in self.notes)]))
        return "\n\n".join(parts)

    def svg(self) -> str:
        """The advised plan as a standalone picture."""
        chosen, plan = self.advice.chosen, self.advice.chosen.plan
        pictures = picture_semijoin(plan) if isinstance(plan, SemijoinPlan) else picture_plan(plan)
        title = f"{chosen.name}: {_flow(chosen.bytes_per_s)}"
        return draw(title, self.advice.sites, chosen.loads, pictures)


def explain_sites(
    query: Query,
    statistics: Statistics,
    *,
    partitions: int = SITE_PARTITIONS,
    interval_s: float = DEFAULT_INTERVAL_S,
    statistics_command: str = "watersmeet analyze FILE.sql",
) -> SiteExplanation:
    """The advice for a query whose streams are at different sites, ready to be shown."""
    advice = advise_sites(
        query,
        statistics,
        partitions=partitions,
        interval_s=interval_s,
        statistics_command=statistics_command,
    )
    notes = (*notes_on_statistics(query, statistics), *slow_links(statistics, advice.chosen.loads))
    if query.combines_answers:
        notes += (ONE_SITE,)
    return SiteExplanation(advice, notes)


def _option_json(option: SiteOption) -> dict[str, Any]:
    return {
        "method": option.method,
        "detail": option.detail,
        "bytes_per_s": option.bytes_per_s,
        "bytes_per_month": option.bytes_per_s * MONTH_S,
        "links": [
            {"from": a, "to": b, "bytes_per_s": rate, "bytes_per_month": rate * MONTH_S}
            for (a, b), rate in option.by_link().items()
        ],
    }


def _head(advice: SiteAdvice) -> Iterator[str]:
    at: dict[str, list[str]] = {}
    for alias, site in advice.sites.items():
        at.setdefault(site, []).append(alias)
    yield "sites     " + "; ".join(f"{site}: {', '.join(aliases)}" for site, aliases in at.items())
    chosen, baseline = advice.chosen, advice.baseline
    yield f"advice    {chosen.name}: {_flow(chosen.bytes_per_s)}"
    if chosen is baseline:
        least = advice.options[0] is chosen
        saves = "is the cheapest there is" if least else f"is within {AS_CHEAP - 1:.0%} of the cheapest"
        yield f"          simple shipping {saves}"
    else:
        times = _times(baseline.bytes_per_s, chosen.bytes_per_s)
        yield f"baseline  {baseline.name}: {_flow(baseline.bytes_per_s)}, {times}"


def _option_rows(advice: SiteAdvice) -> Iterator[tuple[str, ...]]:
    for option in advice.options:
        rate = option.bytes_per_s
        relative = "" if option is advice.chosen else _times(rate, advice.chosen.bytes_per_s)
        yield (option.name, f"{number(rate)} bytes/s", f"{size(rate * MONTH_S)} a month", relative)


def _plan_lines(plan: SitePlan) -> list[str]:
    if not isinstance(plan, SemijoinPlan):
        return plan.pretty().split("\n")
    return [
        f"{' ⋈ '.join(step.source)} -> {' ⋈ '.join(step.target)}: {step.method.value},"
        f" result at {step.output_site}, {number(sum(load.bytes_per_s for load in loads))} bytes/s"
        for step, loads in zip(plan.steps, plan.loads(), strict=True)
    ]


def _link_rows(option: SiteOption) -> Iterator[tuple[str, ...]]:
    """Each link with its total, and below it each stream where there are several."""
    for (source, target), total in option.by_link().items():
        streams = [load for load in option.loads if (load.source, load.target) == (source, target)]
        name = f"{source} -> {target}"
        names = ", ".join(load.stream for load in streams)
        yield (name, f"{number(total)} bytes/s", f"{size(total * MONTH_S)} a month", names)


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows under one another; the numbers in the middle lean right."""
    cells = list(rows)
    if not cells:
        return ["  nothing"]
    widths = [max(len(row[n]) for row in cells) for n in range(3)]
    return [
        f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip()
        for row in cells
    ]


def _flow(bytes_per_s: float) -> str:
    return f"{number(bytes_per_s)} bytes/s, {size(bytes_per_s * MONTH_S)} a month"


def _times(cost: float, least: float) -> str:
    if math.isclose(cost, least, rel_tol=SAME):
        return "the same"
    return f"{number(cost / least)} times as much" if least else "where the advice has nothing"


def size(count_bytes: float) -> str:
    """Bytes as a bill has them: 25920000 is '25.92 MB'."""
    for unit, bytes_ in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count_bytes >= bytes_:
            return f"{count_bytes / bytes_:.4g} {unit}"
    return f"{count_bytes:.4g} bytes"
