"""*Optimal*: the cheapest plan of all, by dynamic programming over sets of streams and sites.

Paper: PMJoin, DASFAA 2006, section 4, which enumerates all plans and reports results up to 14 streams.

Guarantee: no tree of joins at the streams' sites ships fewer bytes/s in the model. For every set of streams
and every site, the program keeps the cheapest way to have the set's join there: join two smaller sets there,
or have it elsewhere and ship it. Joins at one site cost nothing among themselves, so several two-way steps
at one site are read back as one MJoin. Sites without a stream of the query are left out: a join there could
move to the site of its largest input and save shipping that one.

Sets that the join graph leaves unconnected are never joined, as in the paper's plans.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.pmjoin.heuristic import Operand, join
from watersmeet.plan.statistics.join_attribute import JoinAttribute
from watersmeet.plan.statistics.rate_model import RateModel
from watersmeet.plan.statistics.value_groups import FloatArray

EXHAUSTIVE_LIMIT = 14


def optimal(model: RateModel, operands: Sequence[Operand], target: str | None = None) -> Operand:
    """The cheapest plan; with `target`, counting what it takes to ship the result there."""
    if len(operands) > EXHAUSTIVE_LIMIT:
        raise ConfigurationError(
            f"the exhaustive optimizer takes at most {EXHAUSTIVE_LIMIT} streams, "
            f"this join has {len(operands)}; use the heuristic one"
        )
    return _Search(model, operands).best(target)


class _Search:
    """Costs of every set of operands (a mask over `operands`) at every site."""

    def __init__(self, model: RateModel, operands: Sequence[Operand]) -> None:
        self.model = model
        self.operands = operands
        self.sites = sorted({operand.site for operand in operands})
        count, size = len(operands), 1 << len(operands)
        self.flows = all_bytes_per_s(model, [operand.mask for operand in operands])
        self.joined = np.full((size, len(self.sites)), np.inf)  # the join is made at the site
        self.there = np.full((size, len(self.sites)), np.inf)  # its result is had at the site
        self.split: npt.NDArray[np.int64] = np.zeros((size, len(self.sites)), dtype=np.int64)
        for index, operand in enumerate(operands):
            self.joined[1 << index, self.sites.index(operand.site)] = 0.0
        reach = [sum(1 << j for j in range(count) if self._edge(i, j)) for i in range(count)]
        for subset in range(1, size):
            if subset & (subset - 1):
                if not _connected(subset, reach):
                    continue
                self._join(subset)
            shipped = self.joined[subset].min() + self.flows[subset]
            self.there[subset] = np.minimum(self.joined[subset], shipped)

    def _edge(self, i: int, j: int) -> bool:
        return i != j and self.model.joinable(self.operands[i].mask, self.operands[j].mask)

    def _join(self, subset: int) -> None:
        """Price every way to halve a set; the half with the lowest stream stands for both orders."""
        lowest = subset & -subset
        bits = [1 << bit for bit in range(subset.bit_length()) if (subset ^ lowest) >> bit & 1]
        choices = np.arange((1 << len(bits)) - 1, dtype=np.int64)
        halves = np.full(len(choices), lowest, dtype=np.int64)
        for index, bit in enumerate(bits):
            halves += (choices >> index & 1) * bit
        costs = self.there[halves] + self.there[subset ^ halves]
        best = costs.argmin(axis=0)
        self.split[subset] = halves[best]
        self.joined[subset] = costs[best, np.arange(len(self.sites))]

    def best(self, target: str | None) -> Operand:
        full = (1 << len(self.operands)) - 1
        costs = self.joined[full].copy()
        if target is not None:
            costs += [self.flows[full] if site != target else 0.0 for site in self.sites]
        return self._plan(full, int(costs.argmin()))

    def _plan(self, subset: int, site: int) -> Operand:
        if not subset & (subset - 1):
            return self.operands[subset.bit_length() - 1]
        inputs = self._inputs(subset, site)
        inputs.sort(key=lambda item: (item.site == self.sites[site], item.bytes_per_s))
        return join(self.model, inputs, self.sites[site])

    def _inputs(self, subset: int, site: int) -> list[Operand]:
        """What a join at a site takes in, the two-way steps made at the same site melted into one."""
        half = int(self.split[subset, site])
        inputs: list[Operand] = []
        for part in (half, subset ^ half):
            if self.joined[part, site] > self.there[part, site]:
                inputs.append(self._plan(part, int(self.joined[part].argmin())))
            elif part & (part - 1):
                inputs += self._inputs(part, site)
            else:
                inputs.append(self._plan(part, site))
        return inputs


def _connected(subset: int, reach: Sequence[int]) -> bool:
    reached = subset & -subset
    while True:
        wider = reached
        for index, near in enumerate(reach):
            if reached >> index & 1:
                wider |= near & subset
        if wider == reached:
            return reached == subset
        reached = wider


def all_bytes_per_s(model: RateModel, operands: Sequence[int]) -> FloatArray:
    """bytes/s of the join of every subset of disjoint operands, indexed by a mask over the operands."""
    size = 1 << len(operands)
    unions = [0] * size
    for subset in range(1, size):
        lowest = subset & -subset
        unions[subset] = unions[subset ^ lowest] | operands[lowest.bit_length() - 1]
    flows = np.array([model.unfiltered_bytes_per_s(union) for union in unions])
    for attribute in model.attributes:
        flows *= _all_agreements(attribute, operands, unions)
    return flows


def _all_agreements(attribute: JoinAttribute, operands: Sequence[int], unions: Sequence[int]) -> FloatArray:
    """`agreement` of every union, a slice of the groups at a time so that memory stays small."""
    counts = attribute.groups.counts
    total = np.zeros(len(unions))
    step = max(1, 1_000_000 // len(unions))
    for start in range(0, len(counts), step):
        block = slice(start, start + step)
        products = np.ones((1, len(counts[block])))
        for operand in operands:
            inside = operand & attribute.mask
            factor = attribute.product(inside)[block] if inside else 1.0
            products = np.vstack([products, products * factor])
        total += products @ counts[block]
    for subset, union in enumerate(unions):
        inside = union & attribute.mask
        total[subset] = total[subset] * attribute.correction(inside) if inside else 1.0
    return total
