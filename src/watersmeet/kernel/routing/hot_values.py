"""Hot values: which input's tuples are spread, which are copied, and how that begins and ends.

After PMJoin (Zhou, Yan, Yu, Zhou, "PMJoin: optimizing distributed multi-way stream joins by stream
partitioning", 2006), which plans heavy values on their own; here its idea serves the buckets of one cluster.

Guarantee: if every micro-batch is routed by the table in force, and lines change only by `heat`, `cool` and
`without_expired`, each combination whose lifetimes overlap meets in exactly one bucket, and no tuple ever
moves. The proof is in docs/decisions/007-hot-keys.md; it needs a window of time on every input of the class.

    b0  v becomes hot, a is spread; b has been seen up to 12:00, its window is 10 min: spread_from 12:10
        b's v-tuples go everywhere from now on; a's go home while ts < 12:10, and anywhere after that
    c0  v cools; a has been seen up to 12:30, its window is 5 min: copied_until 12:35
        a's v-tuples go home again; b's go everywhere while ts < 12:35, and home after that
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from watersmeet.kernel.layout import JoinLayout
from watersmeet.query import BEGINNING, NEVER


@dataclass(frozen=True, order=True)
class HotValue:
    """A line of the routing table; times are event times, and exclusive at their ends."""

    cls: int
    hash: int  # of the key
    spread: str  # the input whose tuples are spread; those of the others are copied
    spread_from: int
    cooling: bool = False
    copied_until: int = NEVER
    expires_at: int = NEVER


@dataclass(frozen=True)
class HotTable:
    """The lines in force in one micro-batch."""

    values: tuple[HotValue, ...] = ()

    @property
    def digest(self) -> int:
        """A number that identifies a table; 0 is the table without lines."""
        if not self.values:
            return 0
        text = json.dumps(self.to_json())
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big") or 1

    def of(self, cls: int) -> tuple[HotValue, ...]:
        return tuple(value for value in self.values if value.cls == cls)

    def find(self, cls: int, key_hash: int) -> HotValue | None:
        return next((value for value in self.values if (value.cls, value.hash) == (cls, key_hash)), None)

    def with_value(self, value: HotValue) -> HotTable:
        """The table with this line, instead of the one for the same value, if any."""
        others = (one for one in self.values if (one.cls, one.hash) != (value.cls, value.hash))
        return HotTable(tuple(sorted((*others, value))))

    def without_expired(self, watermark: int) -> HotTable:
        """The table without the lines that no acceptable tuple can be concerned by any more."""
        return HotTable(tuple(one for one in self.values if not one.cooling or watermark < one.expires_at))

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(value) for value in self.values]

    @classmethod
    def from_json(cls, values: Iterable[Mapping[str, Any]]) -> HotTable:
        return cls(tuple(HotValue(**fields) for fields in values))


NO_HOT_VALUES = HotTable()


def may_spread(layout: JoinLayout, cls: int) -> bool:
    """Whether values of a class can be handed over: the ends of all lifetimes it touches are known."""
    windows = [item.window for item in layout.inputs if cls in item.classes]
    return not layout.delayed and all(window.duration_us is not None for window in windows)


def heat(
    layout: JoinLayout, table: HotTable, cls: int, key_hash: int, spread: str, newest: Mapping[str, int]
) -> HotTable:
    """The table with a value hot from the next micro-batch on; `newest` holds each input's largest ts so far.

    A value that is still cooling can only become hot again with the input that was spread before.
    """
    known = table.find(cls, key_hash)
    if known is not None and known.spread != spread:
        raise ValueError(f"the value is in the table with {known.spread} spread: it has to cool first")
    ends = [_latest_end(layout, alias, newest) for alias in _others(layout, cls, spread)]
    return table.with_value(HotValue(cls, key_hash, spread, max(ends, default=BEGINNING)))


def cool(layout: JoinLayout, table: HotTable, value: HotValue, newest: Mapping[str, int]) -> HotTable:
    """The table with a hot value cooling from the next micro-batch on."""
    until = _latest_end(layout, value.spread, newest)
    ends = []
    for alias in _others(layout, value.cls, value.spread):
        copied = max(newest.get(alias, BEGINNING), until - 1)
        ends.append(_latest_end(layout, alias, {alias: copied}))
    cooled = replace(value, cooling=True, copied_until=until, expires_at=max(ends, default=until))
    return table.with_value(cooled)


def _others(layout: JoinLayout, cls: int, spread: str) -> list[str]:
    return [item.alias for item in layout.inputs if cls in item.classes and item.alias != spread]


def _latest_end(layout: JoinLayout, alias: str, newest: Mapping[str, int]) -> int:
    """When the last of an input's tuples up to its largest event time leaves its window."""
    ts = newest.get(alias, BEGINNING)
    return BEGINNING if ts <= BEGINNING else min(layout.of(alias).window.end_us(ts), NEVER)
