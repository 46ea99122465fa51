"""PMJoin's Algorithm 1, STREAMJOINOPT, and the plans it is compared with.

Paper: PMJoin, DASFAA 2006, section 3.2 (Algorithm 1, equation 4) and section 4 (*Simple*, *Local*).

What it gives: a tree of MJoins, each at the site of its right-most input, in O(n^2) steps. First each site
joins its own streams where that makes them slower than they were. Then, again and again, the slowest stream
collects others: for each joinable stream either all go to its site and the result is sent on (case 1), or all
go to a third site together (case 2), whichever costs less; the cheapest stream is taken, and case 1 settles
where the collected streams are joined. It is a heuristic: `pmjoin_exhaustive` may find a cheaper plan.

Readings taken where the listing is open:

- "Rate" means bytes/s throughout, sorting included, as the paper allows.
- Lines 4-9 remove the k-th stream while k runs on; here no stream is skipped by the removal. Only joinable
  streams are joined.
- Lines 14-27 are one loop. A tie between the cases takes case 1, a tie between streams the slower one.
- The last stream always takes case 1, as in the walk through Example 2: nothing is left to send the result
  on to, and no third stream to meet. (That walk says S1 and S0,2,3 go to n0; S1 is there, S4 goes.)

Example: s3, the slowest, meets s2 at n2, and their few matches travel to n1.

    MJoin at n1
    ├─ MJoin at n2
    │  ├─ s3 at n3
    │  └─ s2 at n2
    └─ s1 at n1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watersmeet.plan.sites.plan_tree import MJoin, StreamLeaf
from watersmeet.plan.statistics.rate_model import Flow, RateModel, adding_costs


@dataclass(frozen=True, eq=False)
class Operand:
    """A stream to be joined, source or intermediate: its plan so far and the sources in it."""

    node: StreamLeaf | MJoin
    mask: int
    site: str
    bytes_per_s: float

    @property
    def flow(self) -> Flow:
        return self.bytes_per_s, self.site


LocalStep = Callable[[RateModel, Sequence[Operand]], list[Operand]]


def leaf(model: RateModel, mask: int, site: str, name: str) -> Operand:
    """A stream that needs no join of ours."""
    rate = model.rate(mask)
    tuple_bytes = model.tuple_bytes(mask)
    return Operand(StreamLeaf(name, site, rate, tuple_bytes), mask, site, rate * tuple_bytes)


def source_operands(model: RateModel) -> list[Operand]:
    """Every source stream of the model."""
    return [leaf(model, 1 << n, source.site, source.alias) for n, source in enumerate(model.sources)]


def join(model: RateModel, inputs: Sequence[Operand], site: str) -> Operand:
    """An MJoin of operands at a site."""
    mask = 0
    for operand in inputs:
        mask |= operand.mask
    rate, tuple_bytes = model.rate(mask), model.tuple_bytes(mask)
    node = MJoin(tuple(operand.node for operand in inputs), site, rate, tuple_bytes)
    return Operand(node, mask, site, rate * tuple_bytes)


def join_where_it_slows(model: RateModel, streams: Sequence[Operand]) -> list[Operand]:
    """Algorithm 1, lines 3-9: join streams of one site where the result is slower than both."""
    left = sorted(streams, key=_speed)
    j = 0
    while j < len(left):
        k = j + 1
        while k < len(left):
            joinable = model.joinable(left[j].mask, left[k].mask)
            if joinable and model.bytes_per_s(left[j].mask | left[k].mask) < left[j].bytes_per_s:
                left[j] = join(model, (left[j], left.pop(k)), left[j].site)
            else:
                k += 1
        j += 1
    return left


def join_all_local(model: RateModel, streams: Sequence[Operand]) -> list[Operand]:
    """The first step of *Local*: join whatever streams of one site are joinable."""
    left = sorted(streams, key=_speed)
    joined: list[Operand] = []
    while left:
        group = [left.pop(0)]
        while near := [operand for operand in left if _joins_any(model, group, operand)]:
            group += near
            left = [operand for operand in left if operand not in near]
        joined.append(join(model, group, group[0].site) if len(group) > 1 else group[0])
    return joined


def _joins_any(model: RateModel, group: Sequence[Operand], operand: Operand) -> bool:
    return any(model.joinable(member.mask, operand.mask) for member in group)


def stream_join_opt(
    model: RateModel, operands: Sequence[Operand], local_step: LocalStep = join_where_it_slows
) -> Operand:
    """Algorithm 1: the plan that joins all operands."""
    by_site: dict[str, list[Operand]] = {}
    for operand in operands:
        by_site.setdefault(operand.site, []).append(operand)
    left = [operand for group in by_site.values() for operand in local_step(model, group)]
    while len(left) > 1:
        left.sort(key=_speed)
        left.append(_gather(model, left))
    return left[0]


def _gather(model: RateModel, left: list[Operand]) -> Operand:
    """One turn of the outer loop (lines 12-27): take the slowest stream and others from `left`, join them."""
    pending = [left.pop(0)]
    mask = pending[0].mask
    while True:
        reach = model.reach(mask)
        joinable = [operand for operand in left if operand.mask & reach]
        costs = adding_costs(
            [operand.flow for operand in pending],
            [operand.flow for operand in joinable],
            model.bytes_with_each(mask, [operand.mask for operand in joinable]),
        )
        cheapest = [min(cases) for cases in costs]
        best = cheapest.index(min(cheapest))
        chosen, (here, elsewhere) = joinable[best], costs[best]
        left.remove(chosen)
        pending.append(chosen)
        mask = model.union(mask, chosen.mask)
        if here <= elsewhere or not left:
            return join(model, pending, chosen.site)


def local(model: RateModel, operands: Sequence[Operand]) -> Operand:
    """*Local*: Algorithm 1 with every joinable pair of co-located streams joined first."""
    return stream_join_opt(model, operands, join_all_local)


def simple(model: RateModel, operands: Sequence[Operand]) -> Operand:
    """*Simple*: send all streams to the site of the fastest one."""
    return _join_at(model, operands, max(operands, key=_speed).site)


def centralized(model: RateModel, operands: Sequence[Operand]) -> Operand:
    """The best plan with one join at one site: send all streams to where most bytes already are."""
    present: dict[str, float] = {}
    for operand in operands:
        present[operand.site] = present.get(operand.site, 0.0) + operand.bytes_per_s
    return _join_at(model, operands, max(present, key=lambda site: present[site]))


def _join_at(model: RateModel, operands: Sequence[Operand], site: str) -> Operand:
    if len(operands) == 1:
        return operands[0]
    return join(model, sorted(operands, key=lambda operand: (operand.site == site, _speed(operand))), site)


def _speed(operand: Operand) -> float:
    return operand.bytes_per_s
