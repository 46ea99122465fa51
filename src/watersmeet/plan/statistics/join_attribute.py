"""How often the tuples of a set of streams agree on one attribute: F(A), the selectivity of the set.

PMJoin (DASFAA 2006, section 3.2) speaks of the selectivity f of one join. For an attribute that joins many
streams, f between two joined sets depends on which values survived in each. So F(A) is kept for sets: the
sum over values of the product of the streams' shares of that value. Then f(A, B) = F(A and B) / F(A) F(B),
and no order of joins changes the result.

Selectivities that someone gave for pairs of streams correct the estimate: F(A) is multiplied by
given / estimated for each pair along the spanning tree of A with the largest selectivities. For uniform
values that tree is the classical rule of dropping the smallest distinct count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from watersmeet.plan.statistics.value_groups import FloatArray, ValueGroups


@dataclass(frozen=True, eq=False)
class JoinAttribute:
    """One attribute class: which sources it joins, their values, and what given selectivities correct.

    `groups` has one row of shares per member. `corrections` maps pairs of sources to given / estimated.
    `whole` is the attribute this one holds some values of.
    """

    name: str
    members: tuple[int, ...]
    groups: ValueGroups
    corrections: Mapping[frozenset[int], float] = field(default_factory=dict)
    whole: JoinAttribute | None = None
    mask: int = field(init=False)
    _products: dict[int, FloatArray] = field(default_factory=dict, init=False, repr=False)
    _agreements: dict[int, float] = field(default_factory=dict, init=False, repr=False)
    _factors: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", sum(1 << member for member in self.members))
        bits = [1 << member for member in self.members]
        self._products.update(zip(bits, self.groups.shares / self.groups.counts, strict=True))
        self._agreements.update(zip(bits, self.groups.shares.sum(axis=1).tolist(), strict=True))

    def product(self, mask: int) -> FloatArray:
        """Per group: the product over the set's members of their share of one value."""
        known = self._products.get(mask)
        if known is None:
            lowest = mask & -mask
            known = self._products[mask] = self.product(lowest) * self.product(mask ^ lowest)
        return known

    def remember_union(self, left: int, right: int) -> None:
        """Keep the product of two sets whose products are known, which is cheaper than finding it anew."""
        inside, other = left & self.mask, right & self.mask
        if inside and other and inside | other not in self._products:
            self._products[inside | other] = self.product(inside) * self.product(other)

    def agreement(self, mask: int) -> float:
        """F(A) for this attribute alone; 1 where it joins nothing of the set."""
        inside = mask & self.mask
        known = self._agreements.get(inside) if inside else 1.0
        if known is None:
            known = float(self.product(inside) @ self.groups.counts) * self.correction(inside)
            self._agreements[inside] = known
        return known

    def agreement_with_each(self, mask: int, others: Sequence[int]) -> FloatArray:
        """`agreement` of a set joined with each of some others in turn."""
        inside, own = mask & self.mask, self.mask
        if not inside or not all(other & own for other in others):
            return np.array([self.agreement(mask | other) for other in others])
        product = self.product
        agreements = np.array([product(other & own) for other in others]) @ (
            product(inside) * self.groups.counts
        )
        if self.corrections:
            agreements *= [self.correction((mask | other) & own) for other in others]
        return np.asarray(agreements, dtype=np.float64)

    def correction(self, mask: int) -> float:
        """How far given selectivities move the estimate for a set of members."""
        if self.whole:
            return self.whole.correction(mask)
        if not self.corrections or not mask & (mask - 1):
            return 1.0
        known = self._factors.get(mask)
        if known is None:
            known = self._factors[mask] = self._correct(mask)
        return known

    def _correct(self, mask: int) -> float:
        """The product of pairs' corrections along the spanning tree of the largest selectivities."""
        inside = [member for member in self.members if mask >> member & 1]
        linked, factor = {inside[0]}, 1.0
        while len(linked) < len(inside):
            pairs = [frozenset((i, j)) for i in linked for j in inside if j not in linked]
            best = max(pairs, key=lambda pair: (self._pair_selectivity(pair), sorted(pair)))
            factor *= self.corrections.get(best, 1.0)
            linked |= best
        return factor

    def _pair_selectivity(self, pair: frozenset[int]) -> float:
        rows = [self.members.index(member) for member in pair]
        return self.groups.selectivity(rows) * self.corrections.get(pair, 1.0)

    def part(self, groups: ValueGroups) -> JoinAttribute:
        """The same attribute over some of its values."""
        return JoinAttribute(self.name, self.members, groups, self.corrections, self.whole or self)
