"""Hot values by the statistics: which values would be spread, and of which classes none can be.

A running query decides by what it counts itself (`hot_keys`); these are its decisions if the streams are as
they were measured. Where a value's home is, only its hash knows: values are taken to be at homes of their
own, the most even case, so that what is listed here is spread wherever the homes are.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.plan.routing.hot_keys import ClassLoad, choose_hot
from watersmeet.plan.routing.shares import Hypercube
from watersmeet.plan.statistics.statistics import Statistics, Value, attribute_name
from watersmeet.plan.statistics.value_groups import align
from watersmeet.query import AttributeClass, Query

US_PER_S = 1_000_000


@dataclass(frozen=True)
class HotValuePlan:
    """A value that would be spread."""

    value: Value
    spread: str  # the input
    rate_per_s: float
    copied: tuple[str, ...]  # the inputs whose tuples go to every cell


@dataclass(frozen=True)
class HotClassPlan:
    """A class of more than one cell: its hot values, or why its values stay at home."""

    attributes: str
    cells: int  # the share of the class
    hot: tuple[HotValuePlan, ...] = ()
    why_not: str | None = None


def plan_hot_values(query: Query, hypercube: Hypercube, statistics: Statistics) -> tuple[HotClassPlan, ...]:
    """For each class that is cut into several cells, what would be spread."""
    return tuple(
        _plan_class(query, cls, share, statistics)
        for cls, share in zip(query.graph.classes, hypercube.shares, strict=True)
        if share > 1
    )


def _plan_class(query: Query, cls: AttributeClass, cells: int, statistics: Statistics) -> HotClassPlan:
    inputs = [query.input(side.alias) for side in cls.attributes]
    endless = [item.alias for item in inputs if item.window.duration_us is None]
    if query.joins_delayed:
        return HotClassPlan(cls.pretty(), cells, why_not="with ROWS windows ends are not known in advance")
    if endless:
        why_not = f"the window of {', '.join(endless)} has no end"
        return HotClassPlan(cls.pretty(), cells, why_not=why_not)
    rates = [
        statistics.stream(item.stream.name).rate_per_s * statistics.filter_selectivity(item)
        for item in inputs
    ]
    known = [
        statistics.attribute(item.stream.name, attribute_name(side))
        for item, side in zip(inputs, cls.attributes, strict=True)
    ]
    unfiltered = [statistics.stream(item.stream.name).rate_per_s for item in inputs]
    groups = align(list(zip(known, unfiltered, strict=True)))
    values: dict[Value, tuple[float, ...]] = {}
    for group, cell in enumerate(groups.cell_of.tolist()):
        value = groups.cells[cell].value
        if value is not None:
            own = groups.shares[:, group].tolist()
            values[value] = tuple(share * rate for share, rate in zip(own, rates, strict=True))
    heaviest = sorted(values, key=lambda value: -sum(values[value]))
    homes = {value: number % cells for number, value in enumerate(heaviest)}
    windows = tuple((item.window.duration_us or 0) / US_PER_S for item in inputs)
    chosen = choose_hot(ClassLoad(cells, windows, tuple(rates), values, homes), {})
    aliases = [item.alias for item in inputs]
    hot = tuple(
        HotValuePlan(
            value,
            aliases[chosen[value]],
            values[value][chosen[value]],
            tuple(alias for alias in aliases if alias != aliases[chosen[value]]),
        )
        for value in heaviest
        if value in chosen
    )
    return HotClassPlan(cls.pretty(), cells, hot)
