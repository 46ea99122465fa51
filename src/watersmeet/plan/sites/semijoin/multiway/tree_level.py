"""A level of a join tree: the results of its two one-way joins, made one stream for the level above.

After Tran and Lee (2010), section 4.2. The results of an interval are those whose latest tuple came in it;
both directions leave them at one site, the level's home, which numbers them. A result is valid from its
latest tuple until the first of its members ends. Under ROWS windows ends become known later: the members'
home sites send notice of them to the level's home, once an interval.

Intervals close in order, as a stream's do. By the clock they do so by themselves; with heartbeats an interval
may be complete before an earlier one, whose batch waits for tuples it asked for, and then it waits too: a
join that has seen an interval takes all earlier ones for seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, Member
from watersmeet.plan.sites.semijoin.oneway.messages import END_BYTES, NUMBER_BYTES
from watersmeet.query import NEVER


@dataclass
class Level:
    """Joined inputs at their home site, and which of them are under ROWS windows."""

    order: tuple[str, ...]  # of an item's members
    site: str
    open_members: tuple[int, ...]  # positions in `order` whose ends become known later
    next_interval: int  # the first that is still open
    _: KW_ONLY
    _arrived: dict[int, list[Item]] = field(default_factory=dict)
    _count: int = 0
    _ends: dict[tuple[int, int], int] = field(default_factory=dict)
    _awaiting: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _new_ends: list[Ended] = field(default_factory=list)
    _received: dict[int, set[str]] = field(default_factory=dict)

    def add(self, interval: int, items: Sequence[Item]) -> None:
        """Results of one direction, members in this level's order."""
        self._arrived.setdefault(interval, []).extend(items)

    def learn(self, member: int, ended: Sequence[Ended]) -> None:
        """Tuples of one member that ended."""
        for position, end in ended:
            self._ends[member, position] = end
            self._new_ends += [(number, end) for number in self._awaiting.pop((member, position), ())]

    @staticmethod
    def notice_bytes(ended: Sequence[Ended]) -> float:
        """The size of a notice of ended tuples."""
        return float(len(ended) * (NUMBER_BYTES + END_BYTES))

    def note_received(self, interval: int, what: str) -> None:
        """A part of an interval is in: the results of one direction, or notice of one member's ends."""
        self._received.setdefault(interval, set()).add(what)

    @property
    def is_complete(self) -> bool:
        """Whether every part of the next interval to close has arrived."""
        return len(self._received.get(self.next_interval, ())) == 2 + len(self.open_members)

    def close(self) -> tuple[list[Item], list[Ended]]:
        """The results of the next interval, numbered, and the earlier ones that have ended since."""
        interval, self.next_interval = self.next_interval, self.next_interval + 1
        self._received.pop(interval, None)
        new_ends, self._new_ends = self._new_ends, []
        items = []
        for found in sorted(self._arrived.pop(interval, ()), key=_by_members):
            items.append(Item(found.t, self._end(found.members, self._count), self._count, found.members))
            self._count += 1
        return items, new_ends

    def close_up_to(self, mark: int) -> Iterator[tuple[int, list[Item]]]:
        """The results of the intervals up to a mark, as far as there are any."""
        for interval in sorted(interval for interval in self._arrived if interval <= mark):
            self.next_interval = interval
            yield interval, self.close()[0]

    @property
    def held(self) -> int:
        """Results whose interval is open."""
        return sum(map(len, self._arrived.values()))

    def _end(self, members: Sequence[Member], number: int) -> int:
        ends = [member.end for member in members]
        for member in self.open_members:
            key = (member, members[member].position)
            known = self._ends.get(key, NEVER)
            if known == NEVER:
                self._awaiting.setdefault(key, []).append(number)
            ends.append(known)
        return min(ends)


def _by_members(item: Item) -> tuple[int, tuple[int, ...]]:
    return item.t, tuple(member.position for member in item.members)


def in_order(item: Item, joined: Sequence[str], wanted: Sequence[str]) -> Item:
    """An item's members in the order of a level."""
    if tuple(joined) == tuple(wanted):
        return item
    by_alias: Mapping[str, Member] = dict(zip(joined, item.members, strict=True))
    return item._replace(members=tuple(by_alias[alias] for alias in wanted))
