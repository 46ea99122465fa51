"""MJoin at one node: a new arrival meets the windows of the other inputs, in an order that adapts.

After Viglas, Naughton and Burger, "Maximizing the output rate of multi-way join queries over streaming
information sources" (VLDB 2003), as DHTJoin (extended version, section 3.3.1) runs it at every node. All
inputs of an operator are keyed by one class, so a probe looks under one key; the other equalities between its
inputs, and the lifetimes of the tuples, are checked as combinations grow.

Guarantee: each combination is found exactly once, by the last of its tuples to arrive at the node. Where one
arrival feeds several inputs (a stream joined with itself), it arrives at the first of them first.

Adaptive probing: each node orders the inputs by the matches per probe it has seen of each, fewest first, so
that the fewest combinations are built on the way. Old observations count half after every `MEMORY` probes.

Example: for R, S, T of one key, a node that saw 3 matches a probe in S and 0.1 in T lets R probe T first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from watersmeet.lab.overlay.dhtjoin.lane_window import Held, LaneWindow
from watersmeet.lab.overlay.dhtjoin.operators import (
    KeyExpr,
    Operator,
    Partial,
    Published,
    Slot,
    passes_filters,
)

MEMORY = 256  # probes after which what was observed before counts half


class FanOut:
    """The matches per probe seen of one input."""

    __slots__ = ("matches", "probes")

    def __init__(self) -> None:
        self.probes = 0.0
        self.matches = 0.0

    def observe(self, probes: int, matches: int) -> None:
        self.probes += probes
        self.matches += matches
        if self.probes > MEMORY:
            self.probes /= 2
            self.matches /= 2

    @property
    def mean(self) -> float:
        """Before any probe an input counts as having one match, so it is neither favoured nor avoided."""
        return self.matches / self.probes if self.probes else 1.0


@dataclass(slots=True)
class _Growing:
    """A combination being built: what it holds of each slot so far, and its lifetime."""

    chosen: dict[int, Held]
    t: int
    end: int
    since: int


class MJoin:
    """An operator's work at one node; the windows of its lanes belong to the node, which shares them."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.fan_outs = [FanOut() for _ in operator.slots]

    def order(self, head: int) -> list[int]:
        """The slots a new arrival of one slot visits."""
        others = [slot for slot in range(len(self.operator.slots)) if slot != head]
        return sorted(others, key=lambda slot: self.fan_outs[slot].mean)

    def arrive(
        self, head: int, held: Held, windows: Mapping[str, LaneWindow], start_us: int
    ) -> list[Partial]:
        """The combinations that an arrival completes, of tuples inserted at `start_us` or later."""
        lifetime = _lifetime(self.operator.slots[head], held)
        if lifetime is None or lifetime[2] < start_us:
            return []
        growing = [_Growing({head: held}, *lifetime)]
        for slot in self.order(head):
            window = windows.get(self.operator.slots[slot].lane)
            candidates = [
                (other, other_lifetime)
                for other in (window.under(held.key) if window else ())
                if (other.seq < held.seq or (other.seq == held.seq and slot < head))
                and (other_lifetime := _lifetime(self.operator.slots[slot], other))
                and other_lifetime[2] >= start_us
            ]
            longer = self._extend(growing, slot, candidates)
            self.fan_outs[slot].observe(len(growing), len(longer))
            if not longer:
                return []
            growing = longer
        return [Partial(self._members(one), one.t, one.end, one.since) for one in growing]

    def catch_up(self, windows: Mapping[str, LaneWindow], start_us: int) -> list[Partial]:
        """The combinations of tuples held already, as if they arrived now, in the same order."""
        arrivals = [
            (held.seq, number, held)
            for number, slot in enumerate(self.operator.slots)
            if slot.lane in windows
            for held in windows[slot.lane].everything()
            if (lifetime := _lifetime(slot, held)) and lifetime[2] >= start_us
        ]
        arrivals.sort(key=lambda arrival: arrival[:2])
        return [one for _, slot, held in arrivals for one in self.arrive(slot, held, windows, start_us)]

    def _extend(
        self, growing: Sequence[_Growing], slot: int, candidates: Sequence[tuple[Held, tuple[int, int, int]]]
    ) -> list[_Growing]:
        checks = [sides for sides in self.operator.checks if sides[slot] is not None]
        longer = []
        for one in growing:
            for other, (other_t, other_end, other_since) in candidates:
                t, end = max(one.t, other_t), min(one.end, other_end)
                if t < end and all(_agree(sides, one.chosen, slot, other) for sides in checks):
                    chosen = {**one.chosen, slot: other}
                    longer.append(_Growing(chosen, t, end, min(one.since, other_since)))
        return longer

    def _members(self, one: _Growing) -> dict[str, Published]:
        members: dict[str, Published] = {}
        for number, slot in enumerate(self.operator.slots):
            item = one.chosen[number].item
            if isinstance(item, Published):
                assert slot.leaf
                members[slot.leaf.alias] = item
            else:
                members.update(item.members)
        return members


def _lifetime(slot: Slot, held: Held) -> tuple[int, int, int] | None:
    """[t, end) and first insertion of something held, as one slot sees it; None where a filter drops it."""
    item = held.item
    if isinstance(item, Partial):
        return item.t, item.end, item.since
    assert slot.leaf
    if slot.leaf.filters:
        label = f"filters of {slot.leaf.alias}: {' and '.join(expr.sql for expr in slot.leaf.filters)}"
        if label not in held.cached:
            held.cached[label] = passes_filters(slot.leaf, item)
        if not held.cached[label]:
            return None
    return item.ts, slot.leaf.window.end_us(item.ts), item.published_us


def _agree(sides: Sequence[KeyExpr | None], chosen: Mapping[int, Held], slot: int, other: Held) -> bool:
    """Whether a candidate has the value of a class that the combination has, if it has one yet."""
    mine = sides[slot]
    assert mine is not None
    for chosen_slot, held in chosen.items():
        side = sides[chosen_slot]
        if side is not None:
            value = _value(mine, other)
            return value is not None and value == _value(side, held)
    return True


def _value(key: KeyExpr, held: Held) -> Hashable:
    label = f"{key.attribute.alias} {key.name}"
    if label not in held.cached:
        item = held.item
        tuple_ = item if isinstance(item, Published) else item.members[key.attribute.alias]
        held.cached[label] = key.value(tuple_)
    return held.cached[label]
