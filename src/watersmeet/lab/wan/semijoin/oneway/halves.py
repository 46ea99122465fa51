"""What the one-way join protocols have in common: a join, and its two halves.

After Tran and Lee (2010), sections 2.2 and 3.1. A one-way join from S1 to S2 has a half at the source N1 and
a half at the destination N2. Each gets its own stream's batch of every execution interval and the other's
messages, and returns actions: messages to ship, output, work done. Nothing here touches the network, the
clock or a random generator.

The three constraints: a *gated* source waits with a batch until the copy it probes has all of that interval
(1, delayed probe); windows drop an item only when every batch that could meet it is settled (2, delayed
removal); matching is by the probing item's time (3, in window.py).

When is an interval complete, and when settled? In the paper the clock says so, with a bound on delays:
`deadline` is called, and batches are settled `lag` intervals later. With heartbeats messages say so: each
carries its interval, an empty one is sent too, the gate opens when the interval's update has come, and an
interval is settled when its batch has been answered. Then no delay, however long, makes an answer wrong.

Where we differ: the paper's delta bounds a whole sequence of joins and serves both as the wait before a probe
and before a removal; ours bounds one shipment, from which both waits follow (delays.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from watersmeet.lab.wan.semijoin.oneway.items import Ended, Item, Key
from watersmeet.lab.wan.semijoin.oneway.messages import (
    END_BYTES,
    HEARTBEAT_BYTES,
    Actions,
    Message,
    Output,
    Ship,
    Values,
    Work,
)
from watersmeet.lab.wan.semijoin.oneway.window import Held, HeldWindow
from watersmeet.plan.sites.semijoin.cost import ProcessingCosts
from watersmeet.query import BEGINNING, NEVER


@dataclass(frozen=True, kw_only=True)
class Join:
    """A one-way join as its halves know it."""

    source_key: Callable[[Item], Key]
    target_key: Callable[[Item], Key]
    source_bytes: float  # F_S1
    target_bytes: float  # F_S2
    source_key_bytes: float  # P_S1
    target_key_bytes: float  # P_S2
    interval_us: int  # tau
    target_first: bool  # at equal times the target's item counts as the earlier one
    open_ends: bool = False  # whether the target's ends become known later (ROWS windows)
    heartbeats: bool = False
    lag: int = 1  # intervals until a batch is settled, by the bound on delays
    first_interval: int = 0
    costs: ProcessingCosts = field(default_factory=ProcessingCosts)
    filter_bits: int = 64
    filter_hashes: int = 3
    count_only: bool = False  # the output is wanted as a number, not as items

    def limit(self, item: Item) -> int:
        """The latest time of a target's item that this item may find."""
        return item.t if self.target_first else item.t - 1

    def shipped_bytes(self, items: Sequence[Item]) -> float:
        """The size of target items with the ends that are known."""
        return len(items) * (self.target_bytes + (END_BYTES if self.open_ends else 0))


class Receiver(ABC):
    """A half that the other one sends messages to; not every half is."""

    @abstractmethod
    def receive(self, message: Any) -> Actions:
        """A message from the other half."""


class Source(ABC):
    """The half at N1."""

    gated = False

    def __init__(self, join: Join) -> None:
        self.join = join
        self._complete = BEGINNING  # the last interval whose update is in
        self._waiting: dict[int, Sequence[Item]] = {}

    def batch(self, interval: int, items: Sequence[Item]) -> Actions:
        """B1 of an interval."""
        if self.gated and interval > self._complete:
            self._waiting[interval] = items
            return []
        return self.process(interval, items)

    def deadline(self, interval: int) -> Actions:
        """The copy of W2 has all of an interval: batches up to it may probe."""
        self._complete = max(interval, self._complete)
        due = sorted(number for number in self._waiting if number <= self._complete)
        return [action for number in due for action in self.process(number, self._waiting.pop(number))]

    def received(self, interval: int) -> Actions:
        """An update has come: with heartbeats, this is what completes the interval."""
        return self.deadline(interval) if self.join.heartbeats else []

    @abstractmethod
    def process(self, interval: int, items: Sequence[Item]) -> Actions:
        """A batch whose turn it is."""


class AskingSource(Source, Receiver):
    """A half at N1 that sends a batch's join values and keeps the batch until the answer comes."""

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self._asked: dict[int, Sequence[Item]] = {}

    def process(self, interval: int, items: Sequence[Item]) -> Actions:
        self._asked[interval] = items
        values = distinct_keys(items, self.join.source_key)
        size = len(values) * self.join.source_key_bytes
        return [
            Work(interval, "update W1", len(items) * self.join.costs.insert_s),
            *ship(self.join, Values(interval, values), size, "ship K1", if_any=values),
        ]


class Target(ABC):
    """The half at N2, which gets every batch of S2, in order."""

    def __init__(self, join: Join) -> None:
        self.join = join
        self._now = BEGINNING  # the last interval whose batch is in

    def batch(self, interval: int, items: Sequence[Item], ended: Sequence[Ended] = ()) -> Actions:
        """B2 of an interval, and which items of W2 ended in it."""
        assert interval > self._now, f"the batch of interval {interval} came after that of {self._now}"
        self._now = interval
        return self.update(interval, items, ended)

    @abstractmethod
    def update(self, interval: int, items: Sequence[Item], ended: Sequence[Ended]) -> Actions:
        """Takes a batch in."""


class WindowTarget(Target, Receiver):
    """A half at N2 that keeps W2 and answers messages from it."""

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self.window = HeldWindow(join.target_key, join.interval_us)
        self._early: list[Message] = []
        self._settled = Settled(join.first_interval)

    def batch(self, interval: int, items: Sequence[Item], ended: Sequence[Ended] = ()) -> Actions:
        actions = super().batch(interval, items, ended)
        early, self._early = self._early, []
        return actions + [action for message in early for action in self.receive(message)]

    def receive(self, message: Any) -> Actions:
        """A message; if its interval has not ended here, it waits."""
        if message.interval > self._now:
            self._early.append(message)
            return []
        return self.answer(message)

    def settled(self, interval: int) -> int:
        """The last interval that no batch still to come is of."""
        return self._settled.all_up_to if self.join.heartbeats else interval - self.join.lag

    def done(self, interval: int) -> None:
        """Every match of this interval's batch has been found, or put aside."""
        self._settled.add(interval)

    def probe_values(self, message: Values) -> Work:
        """The time a nested loop over W2 takes for the join values of a batch."""
        closing = (message.interval + 1) * self.join.interval_us - 1
        looked_at = len(message.values) * self.window.count_alive(closing, closing)
        return Work(message.interval, "probe W2", looked_at * self.join.costs.probe_s)

    @abstractmethod
    def answer(self, message: Any) -> Actions:
        """A message of an interval that has ended here."""


class Settled:
    """The intervals that are settled; they may settle out of order."""

    def __init__(self, first: int) -> None:
        self.all_up_to = first - 1
        self._ahead: set[int] = set()

    def add(self, interval: int) -> None:
        self._ahead.add(interval)
        while self.all_up_to + 1 in self._ahead:
            self.all_up_to += 1
            self._ahead.remove(self.all_up_to)


def ship(join: Join, message: Message, size_bytes: float, term: str, *, if_any: Sized) -> Actions:
    """A message, if it has any content; with heartbeats always."""
    if join.heartbeats:
        return [Ship(message, size_bytes + HEARTBEAT_BYTES, term)]
    return [Ship(message, size_bytes, term)] if if_any else []


def distinct_keys(items: Sequence[Item], key_of: Callable[[Item], Key]) -> list[Key]:
    """The projection on the join attribute, each value once."""
    return list(dict.fromkeys(map(key_of, items)))


def ended_of(sent: Sequence[Held]) -> list[Ended]:
    return [(held.item.number, held.end) for held in sent if held.sent]


def probe_and_join(
    join: Join, interval: int, term: str, items: Sequence[Item], window: HeldWindow
) -> Actions:
    """A batch meets a window: the time it takes, and the results."""
    return [probe_work(join, interval, term, items, window), joined(join, interval, items, window)]


def joined(join: Join, interval: int, items: Sequence[Item], window: HeldWindow) -> Output:
    """The T2-limit join of a batch with a window."""
    key_of, found, count = join.source_key, [], 0
    for item in items:
        matches = window.matches(key_of(item), item.t, join.limit(item))
        count += len(matches)
        if not join.count_only:
            found += [Item(item.t, NEVER, 0, item.members + held.item.members) for held in matches]
    return Output(interval, found, count)


def probe_work(join: Join, interval: int, term: str, items: Sequence[Item], window: HeldWindow) -> Work:
    """The time a nested loop over the window takes for these items."""
    looked_at = sum(window.count_alive(item.t, join.limit(item)) for item in items)
    return Work(interval, term, looked_at * join.costs.probe_s)
