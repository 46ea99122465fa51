"""One query by rewriting: each partial result goes on by the attribute where it meets the fewest tuples.

After RJoin (Idreos, Liarou, Koubarakis, "Continuous Multi-Way Joins over Distributed Hash Tables", EDBT
2008): the query waits at one input, the root; a tuple that meets it rewrites it into a query with a join
less, which goes on to where the tuples of one of its values arrive, the value whose tuples arrive at the
lowest rate (section 6). Here a rewritten query is a row of a relation, and the steps are levels of a
dataflow: for every order in which attributes may follow each other there is a path of joins, and each row
takes one.

Guarantee: from the root, every order is a path of joins that asks every equality of the query; tuples are
kept wherever some path needs them, and a row goes exactly one way (`Join.ways`). So each combination is found
once, on one path, whatever is chosen and however often the choice changes.

Where we differ: inputs that have the attribute of a step are joined in that one step, as they meet in one
bucket; the choice counts the tuples in the windows, not only their rate (`live_values`); and since stages
follow each other in one order, tuples are kept once for each step that may need them, not once. Where orders
are so many that there would be more than `MOST_JOINS` joins, only the most promising ways of each partial
result are there, down to one: a fixed order.

    b.x = a.x, a.y = c.y, root a     level 1: a, passed on     level 2: a by x, b   and   a by y, c
                                     level 3: a b by a.y, c    and   a c by a.x, b
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from watersmeet.errors import QueryError
from watersmeet.plan.multiquery.plan_dataflow import why_unfit
from watersmeet.plan.multiquery.slots import Slotted
from watersmeet.plan.multiquery.tree import Planting, Tree, part_mask
from watersmeet.plan.routing.pipeline import dataflow_of_trees
from watersmeet.plan.sites.plan_tree import number
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import Statistics, attribute_name
from watersmeet.query import Query
from watersmeet.query.shared_dataflow import Expected, Join, SharedDataflow, Way

MOST_JOINS = 80  # a hub with four others, each by its own attribute, has 65


def plan_rewriting(query: Query, statistics: Statistics | None = None) -> SharedDataflow:
    """The dataflow of all ways by which a query is rewritten; default statistics where none are known."""
    reason = why_unfit(query)
    if reason is not None:
        raise QueryError(f"the query is not run by rewriting: {reason}. Route it by shares")
    known = statistics or Statistics()
    slotted = Slotted.by_alias(query, names_routes=True)
    planting = Planting(slotted, rate_model(query, known), ())
    dataflow = dataflow_of_trees(slotted, _Paths(planting).trees())
    return _with_ways(dataflow, slotted, planting, known)


@dataclass(frozen=True)
class _Paths:
    """The orders in which a query's attributes may follow each other."""

    planting: Planting

    def trees(self) -> list[Tree]:
        """The last join of every path, with all before it."""
        root = min(range(len(self.planting.slotted.slots)), key=lambda n: self.planting.rates.rate(1 << n))
        if self.planting.everything == 1:
            return [self.planting.single()]
        width = len(self.planting.slotted.keys)
        while width > 1 and not self._fits(1 << root, width):
            width -= 1
        splits = len(self._ways(1 << root, width)) > 1
        return list(self._grown(self.planting.single(root) if splits else root, width))

    def _fits(self, root: int, width: int) -> bool:
        ahead, joins = [root], 0
        while ahead and joins <= MOST_JOINS:
            mask = ahead.pop()
            ways = self._ways(mask, width)
            joins += len(ways)
            ahead += [mask | self.planting.slotted.class_masks[cls] for cls in ways]
        return joins <= MOST_JOINS

    def _grown(self, part: int | Tree, width: int) -> Iterator[Tree]:
        mask = part_mask(part)
        if isinstance(part, Tree) and mask == self.planting.everything:
            yield part
            return
        for cls in self._ways(mask, width):
            joined = [n for n in sorted(self.planting.slotted.keys[cls]) if not mask >> n & 1]
            yield from self._grown(self.planting.join(cls, [part, *joined]), width)

    def _ways(self, mask: int, width: int) -> list[int]:
        """The attributes that a set has and others have too, those first by which it becomes the fewest.

        Of several that bind the same inputs the one with the most values stands for all: whichever
        it is, the results are the same.
        """
        own, rates = self.planting.slotted.class_masks, self.planting.rates
        ways = [cls for cls in range(len(own)) if own[cls] & mask and own[cls] & ~mask]
        agreeing = [attribute.agreement(attribute.mask) for attribute in rates.attributes]
        ways.sort(key=lambda cls: (rates.rate(mask | own[cls]), agreeing[cls], cls))
        first: dict[int, int] = {}
        for cls in ways:
            first.setdefault(mask | own[cls], cls)
        return list(first.values())[:width]


def _with_ways(
    dataflow: SharedDataflow, slotted: Slotted, planting: Planting, statistics: Statistics
) -> SharedDataflow:
    """The dataflow with the choices its results have."""
    source = {relation.name: relation.source for relation in dataflow.relations}
    met: dict[str, list[Way]] = {}
    for join in dataflow.joins:
        for member in join.members:
            meets = tuple(source[other] for other in join.members if other != member)
            met.setdefault(source[member], []).append(Way(member, meets))
    ways = {
        join.name: tuple(sorted(met[join.name], key=lambda way: way.relation))
        for join in dataflow.joins
        if len(met.get(join.name, ())) > 1
    }
    led_to = {feed for some in ways.values() for way in some for feed in way.meets}
    expected = {}
    for cls, keys in zip(slotted.query.graph.classes, slotted.keys, strict=True):
        for index, key in keys.items():
            feed, item = slotted.feed(index, key.name), slotted.query.inputs[index]
            side = cls.of(item.alias)
            if feed in led_to and side is not None:
                distinct = statistics.attribute(item.stream.name, attribute_name(side)).distinct
                expected[feed] = Expected(feed, planting.rates.window(1 << index), distinct)
    joins = tuple(replace(join, ways=ways.get(join.name, ())) for join in dataflow.joins)
    return replace(dataflow, joins=joins, expected=tuple(expected.values()))


def describe_ways(dataflow: SharedDataflow, join: Join) -> str:
    """The choice that a join's results have, as far as statistics know what they would meet."""
    expected = {one.feed: one for one in dataflow.expected}
    relations = {relation.name: relation for relation in dataflow.relations}
    slots = {relation.source: relation.slot for relation in dataflow.relations}
    ways = []
    for way in join.ways:
        met = [f"{number(expected[f].live / expected[f].distinct)} of {slots[f]}" for f in way.meets]
        ways.append(f"{relations[way.relation].route}, meeting {' x '.join(met)}")
    return f"{' '.join(join.slots)} goes on by {', or by '.join(ways)}; frequent values as observed"
