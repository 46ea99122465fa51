"""The semijoin plan that ships the fewest bytes, where steps share copies and batches.

After Tran and Lee, "Distributed stream join query processing with semijoins" (2010), section 4, whose plans
these are: a sequence of one-way joins for each input as the head (linear), or a tree of two-way joins. The
paper adds up the costs of the steps. Here what several steps need is shipped once (shipped.py), so the cost
of a sequence depends on the others.

Trees: within a level both joins may need the same batch; different levels share nothing, as their streams
differ. So the search over (inputs joined, site) is exact for a tree. Linear: the sequences are found one
after another, each the cheapest given what the others ship, until none can be bettered, from several
beginnings: each sequence by itself, and all by SP-S and SP-D to each of the sites. A better plan may be
missed; none returned is worse than any of the beginnings.

Above `EXHAUSTIVE` inputs a search keeps only the `WIDTH` cheapest partial plans of each length, above `WIDE`
the cheapest one, and betters each sequence once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from watersmeet.plan.sites.plan_tree import LinkLoad
from watersmeet.plan.sites.semijoin.cost import JoinCost, Method
from watersmeet.plan.sites.semijoin.model import SemijoinModel
from watersmeet.plan.sites.semijoin.plan import BYTES, Ordering, SemijoinPlan, SemijoinStep, Shipments
from watersmeet.plan.sites.semijoin.semijoin import check_search
from watersmeet.plan.sites.semijoin.shipped import END_BYTES, NUMBER_BYTES, shipped_cost

EXHAUSTIVE = 5
WIDE = 8
WIDTH = 4
ROUNDS = 6
BETTER = 1 - 1e-9

Steps = tuple[SemijoinStep, ...]


@dataclass(frozen=True)
class _Partial:
    """A sequence or a tree under construction: what is joined, in which order, and where the result is."""

    order: tuple[str, ...]
    site: str
    bytes_per_s: float = 0.0
    steps: Steps = ()

    @property
    def joined(self) -> frozenset[str]:
        return frozenset(self.order)


Extend = Callable[[_Partial, str], Iterator[_Partial]]


@dataclass
class StepPrices:
    """The one-way joins of a model, each priced once for all searches."""

    model: SemijoinModel
    _known: dict[object, list[JoinCost]] = field(default_factory=dict)

    def steps(
        self,
        source: tuple[str, ...],
        target: tuple[str, ...],
        sites: tuple[str, str],
        methods: tuple[Method, ...],
        head: str | None = None,
    ) -> list[SemijoinStep]:
        """A step by each of the methods; within a site one for either end, as nothing is shipped."""
        wanted = methods if sites[0] != sites[1] else _one_for_each_end(methods)
        one, other = frozenset(source), frozenset(target)
        key = (one, other, head, self.model.network.link(*sites), self.model.network.link(*reversed(sites)))
        if key not in self._known:
            join = self.model.one_way(one, other, sites, head)
            self._known[key] = [shipped_cost(join, method) for method in Method]
        classes = self.model.key(one, other)
        return [
            SemijoinStep(source, target, *sites, cost, classes, shares=True)
            for cost in self._known[key]
            if cost.method in wanted
        ]


def _one_for_each_end(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    return tuple(next(m for m in methods if m.output_at_source == end) for end in (True, False))


def fewest_bytes(
    prices: StepPrices, methods: tuple[Method, ...], ordering: Ordering = "linear"
) -> SemijoinPlan:
    """The plan by some methods that ships the fewest bytes a second, as far as the search finds it."""
    model = prices.model
    search = _Search(prices, methods)
    check_search(model, ordering)
    exhaustive = len(model.graph.aliases) <= EXHAUSTIVE
    steps = search.tree() if ordering == "tree" else search.linear()
    return SemijoinPlan(ordering, "exhaustive" if exhaustive else "greedy", steps, BYTES)


def _shipped(sequences: dict[str, Steps]) -> float:
    shipments = Shipments()
    return math.fsum(
        load.bytes_per_s for steps in sequences.values() for step in steps for load in shipments.add(step)
    )


@dataclass
class _Search:
    """The search for one set of methods."""

    prices: StepPrices
    methods: tuple[Method, ...]

    @property
    def model(self) -> SemijoinModel:
        return self.prices.model

    def linear(self) -> Steps:
        """A sequence for each head."""
        found = [self._settled(beginning) for beginning in self._beginnings()]
        best = min(found, key=lambda sequences: float(f"{_shipped(sequences):.9g}"))
        return tuple(step for steps in best.values() for step in steps)

    def _beginnings(self) -> Iterator[dict[str, Steps]]:
        heads = self.model.graph.aliases
        yield {head: self._sequence(head, Shipments()) for head in heads}
        if {Method.SP_S, Method.SP_D} <= set(self.methods):
            begun = [
                {head: self._all_at(head, site) for head in heads}
                for site in dict.fromkeys(stream.site for stream in self.model.streams)
            ]
            yield from begun if len(heads) <= EXHAUSTIVE else [min(begun, key=_shipped)]

    def _settled(self, sequences: dict[str, Steps]) -> dict[str, Steps]:
        """Sequences bettered in turn until none can be."""
        cost = _shipped(sequences)
        for _ in range(ROUNDS if len(sequences) <= EXHAUSTIVE else 1):
            before = cost
            for head in sequences:
                others = Shipments()
                for other, steps in sequences.items():
                    for step in steps if other != head else ():
                        others.add(step)
                changed = {**sequences, head: self._sequence(head, others)}
                if (now := _shipped(changed)) < cost * BETTER:
                    sequences, cost = changed, now
            if cost >= before * BETTER:
                break
        return sequences

    def _sequence(self, head: str, others: Shipments) -> Steps:
        """The sequence of a head that adds least to what others ship."""
        starts = [_Partial((head,), self.model.stream(head).site)]
        return self._cheapest(starts, lambda partial, alias: self._one_more(partial, alias, others))

    def _cheapest(self, starts: list[_Partial], extend: Extend) -> Steps:
        level = starts
        count = len(self.model.graph.aliases)
        for _ in range(count - 1):
            best: dict[tuple[frozenset[str], str], _Partial] = {}
            for partial in level:
                for alias in self.model.reachable(partial.joined):
                    for longer in extend(partial, alias):
                        key = (longer.joined, longer.site)
                        rival = best.get(key)
                        if rival is None or longer.bytes_per_s < rival.bytes_per_s * BETTER:
                            best[key] = longer
            level = list(best.values())
            if count > EXHAUSTIVE:
                level = sorted(level, key=lambda partial: partial.bytes_per_s)
                level = level[: WIDTH if count <= WIDE else 1]
        return min(level, key=lambda partial: partial.bytes_per_s).steps

    def _one_more(self, partial: _Partial, alias: str, others: Shipments) -> Iterator[_Partial]:
        """One more one-way join of a sequence, by the cheapest method for each end."""
        sites = (partial.site, self.model.stream(alias).site)
        best: dict[str, tuple[float, SemijoinStep]] = {}
        for step in self.prices.steps(partial.order, (alias,), sites, self.methods, partial.order[0]):
            added = others.bytes_per_s(step)
            if step.output_site not in best or added < best[step.output_site][0] * BETTER:
                best[step.output_site] = added, step
        for site, (added, step) in best.items():
            yield _Partial((*partial.order, alias), site, partial.bytes_per_s + added, (*partial.steps, step))

    def _all_at(self, head: str, site: str) -> Steps:
        """A head's sequence where everything is shipped to one site."""
        partial = _Partial((head,), self.model.stream(head).site)
        while reachable := self.model.reachable(partial.joined):
            alias = min(reachable, key=lambda a: self.model.stream(a).site != site)
            there = self.model.stream(alias).site
            sites = (partial.site, there)
            method = Method.SP_S if partial.site == site else Method.SP_D
            steps = self.prices.steps(partial.order, (alias,), sites, (Method.SP_S, Method.SP_D), head)
            step = next(step for step in steps if step.method is method)
            partial = _Partial((*partial.order, alias), step.output_site, 0.0, (*partial.steps, step))
        return partial.steps

    def tree(self) -> Steps:
        """The levels of a tree, each two one-way joins."""
        starts = [_Partial((alias,), self.model.stream(alias).site) for alias in self.model.graph.aliases]
        return self._cheapest(starts, self._one_level)

    def _one_level(self, partial: _Partial, alias: str) -> Iterator[_Partial]:
        """One more level: two one-way joins whose results meet at one site, unless they are the answers."""
        here, there = partial.site, self.model.stream(alias).site
        onto = self.prices.steps((alias,), partial.order, (there, here), self.methods)
        out = self.prices.steps(partial.order, (alias,), (here, there), self.methods)
        is_last = len(partial.order) + 1 == len(self.model.graph.aliases)
        order = (*partial.order, alias)
        for site in dict.fromkeys((here, there)):
            pairs = list(_pairs(onto, out, None if is_last else site))
            cost, pair = min(pairs, key=lambda priced: priced[0])
            if is_last:
                yield _Partial(order, site, partial.bytes_per_s + cost, (*partial.steps, *pair))
                return
            notices = tuple(self._notices(order, site))
            cost += math.fsum(load.bytes_per_s for load in notices)
            level = (replace(pair[0], notices=notices), pair[1])
            yield _Partial(order, site, partial.bytes_per_s + cost, (*partial.steps, *level))

    def _notices(self, order: tuple[str, ...], site: str) -> Iterator[LinkLoad]:
        """What tells a level's home which of its members have ended, under ROWS windows."""
        for alias in order:
            stream = self.model.stream(alias)
            if stream.window is not None and stream.window.counts_rows and stream.site != site:
                size = stream.rate_per_s * (NUMBER_BYTES + END_BYTES)
                yield LinkLoad(stream.site, site, f"ends of {alias}", size)


def _pairs(
    onto: list[SemijoinStep], out: list[SemijoinStep], site: str | None
) -> Iterator[tuple[float, tuple[SemijoinStep, SemijoinStep]]]:
    """Pairs of joins worth a look, with what they ship: the cheapest, and those that share a batch."""
    simple = (Method.SP_S, Method.SP_D)
    choices = []
    for steps in (onto, out):
        fitting = [step for step in steps if site in (None, step.output_site)]
        cheapest = min(fitting, key=Shipments().bytes_per_s)
        choices.append([cheapest, *(step for step in fitting if step.method in simple)])
    for one in choices[0]:
        shipments = Shipments()
        shipped = math.fsum(load.bytes_per_s for load in shipments.add(one))
        for other in choices[1]:
            yield shipped + shipments.bytes_per_s(other), (one, other)
