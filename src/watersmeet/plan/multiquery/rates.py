"""Rates of a shared dataflow's joins: the rate model without local filters, which are applied last here.

What is known about a stream or a pair of attributes is looked up once, however many queries join them.
"""

from __future__ import annotations

from watersmeet.plan.multiquery.slots import Slotted
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.rate_model import RateModel, Source, join_attribute, window_tuples
from watersmeet.plan.statistics.statistics import Statistics, attribute_name
from watersmeet.query import Window

Names = tuple[tuple[str, str], ...]  # (stream, column)


class RateModels:
    """Rate models of many queries under the same statistics."""

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self._sources: dict[tuple[str, Window], Source] = {}
        self._attributes: dict[tuple[tuple[int, ...], Names], JoinAttribute] = {}

    def model(self, slotted: Slotted) -> RateModel:
        """The rates of all sets of a query's inputs, before any filter."""
        inputs = slotted.query.inputs
        position = {item.alias: n for n, item in enumerate(inputs)}
        sources = [self._source(item.stream.name, item.window) for item in inputs]
        attributes = []
        for cls in slotted.query.graph.classes:
            members = tuple(position[side.alias] for side in cls.attributes)
            names = tuple(
                (inputs[n].stream.name, attribute_name(side))
                for n, side in zip(members, cls.attributes, strict=True)
            )
            attributes.append(self._attribute(members, names))
        return RateModel(sources, attributes, self.statistics.result_tuple_bytes)

    def _source(self, stream: str, window: Window) -> Source:
        known = self._sources.get((stream, window))
        if known is None:
            facts = self.statistics.stream(stream)
            tuples = window_tuples(window, facts.rate_per_s, self.statistics.unbounded_window_s)
            known = Source.of(stream, "", facts.rate_per_s, tuples, facts.tuple_bytes)
            self._sources[stream, window] = known
        return known

    def _attribute(self, members: tuple[int, ...], names: Names) -> JoinAttribute:
        known = self._attributes.get((members, names))
        if known is None:
            known = join_attribute("", members, names, self.statistics)
            self._attributes[members, names] = known
        return known
