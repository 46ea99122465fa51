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
interval is settled when its batch has been answered. Then no delay, however long, makes an answer wrong. With
marks (multiway/paced.py) whoever runs the halves knows how far everything has come, and hands them each thing
when it is due: then event times alone decide what is shipped, and delays change not a byte.

A pair of halves has one copy at the source, of the window or of its values. Several steps may probe it, each
a `Probe` with tuples of its own: the copy is shipped once for all of them, and what it holds is settled when
the batches of all of them are.

Where we differ: the paper's delta bounds a whole sequence of joins and serves both as the wait before a probe
and before a removal; ours bounds one shipment, from which both waits follow (delays.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, Literal

from watersmeet.plan.sites.semijoin.cost import ProcessingCosts
from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, Key
from watersmeet.plan.sites.semijoin.oneway.messages import (
    END_BYTES,
    HEARTBEAT_BYTES,
    Actions,
    Message,
    Output,
    Ship,
    Values,
    Work,
)
from watersmeet.plan.sites.semijoin.oneway.window import Held, HeldWindow
from watersmeet.query import BEGINNING, NEVER

VectorForm = Literal["changes", "counts"]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A step that probes the copy at the source: what it knows of its own stream."""

    source_key: Callable[[Item], Key]
    source_bytes: float  # F_S1
    source_key_bytes: float  # P_S1
    target_first: bool  # at equal times the target's item counts as the earlier one
    lag: int = 1  # intervals until a batch is settled, by the bound on delays
    count_only: bool = False  # the output is wanted as a number, not as items
    silent: bool = False  # nor as a number: only what is shipped matters

    def limit(self, item: Item) -> int:
        """The latest time of a target's item that this item may find."""
        return item.t if self.target_first else item.t - 1


@dataclass(frozen=True, kw_only=True)
class Join:
    """A one-way join as its halves know it, with the steps that it serves."""

    probes: tuple[Probe, ...]
    target_key: Callable[[Item], Key]
    target_bytes: float  # F_S2
    target_key_bytes: float  # P_S2
    interval_us: int  # tau
    vectors: VectorForm = "changes"  # how V2 travels (vectors.py)
    open_ends: bool = False  # whether the target's ends become known later (ROWS windows)
    heartbeats: bool = False
    marks: bool = False  # whoever runs the halves says what is complete and settled
    first_interval: int = 0
    costs: ProcessingCosts = field(default_factory=ProcessingCosts)
    filter_bits: int = 64
    filter_hashes: int = 3

    @property
    def lag(self) -> int:
        """Intervals until the batches of all probes are settled, by the bound on delays."""
        return max(probe.lag for probe in self.probes)

    @property
    def silent(self) -> bool:
        """Whether nobody wants to know what is found."""
        return all(probe.silent for probe in self.probes)

    def shipped_bytes(self, items: Sequence[Item]) -> float:
        """The size of target items with the ends that are known."""
        return len(items) * (self.target_bytes + (END_BYTES if self.open_ends else 0))

    def answer_bytes(self, content_bytes: float) -> float:
        """The size of an answer; one that is empty says so, where no heartbeat does."""
        return content_bytes or (0.0 if self.heartbeats or self.marks else self.costs.count_bytes)


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
        self._waiting: dict[tuple[int, int], Sequence[Item]] = {}  # by interval and probe

    def batch(self, interval: int, items: Sequence[Item], probe: int = 0) -> Actions:
        """B1 of an interval, of one of the steps."""
        if self.gated and interval > self._complete:
            self._waiting[interval, probe] = items
            return []
        return self.process(interval, items, probe)

    def deadline(self, interval: int) -> Actions:
        """The copy of W2 has all of an interval: batches up to it may probe."""
        self._complete = max(interval, self._complete)
        due = sorted(waiting for waiting in self._waiting if waiting[0] <= self._complete)
        return [
            action
            for number, probe in due
            for action in self.process(number, self._waiting.pop((number, probe)), probe)
        ]

    def received(self, interval: int) -> Actions:
        """An update has come: with heartbeats, this is what completes the interval."""
        return self.deadline(interval) if self.join.heartbeats else []

    @abstractmethod
    def process(self, interval: int, items: Sequence[Item], probe: int) -> Actions:
        """A batch whose turn it is."""

    def waits_its_turn(self, message: Message) -> bool:
        """Whether a message changes what batches probe, and so has to come between those of two intervals."""
        return self.gated

    @property
    def held(self) -> int:
        """Tuples kept here."""
        return 0

    def pending(self, probe: int) -> int | None:
        """The first interval of a step's batches that still wait for an answer."""
        return None

    def release(self, interval: int) -> None:  # noqa: B027 - most keep nothing that waits for it
        """With marks: every batch up to this interval has found all it could."""


class AskingSource(Source, Receiver):
    """A half at N1 that sends a batch's join values and keeps the batch until the answer comes."""

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self._asked: dict[tuple[int, int], Sequence[Item]] = {}  # by interval and probe

    def process(self, interval: int, items: Sequence[Item], probe: int) -> Actions:
        self._asked[interval, probe] = items
        asking = self.join.probes[probe]
        values = distinct_keys(items, asking.source_key)
        size = len(values) * asking.source_key_bytes
        return [
            Work(interval, "update W1", len(items) * self.join.costs.insert_s),
            *ship(self.join, Values(interval, values, probe), size, "ship K1", if_any=values),
        ]

    def pending(self, probe: int) -> int | None:
        return min((interval for interval, number in self._asked if number == probe), default=None)

    @property
    def held(self) -> int:
        return sum(map(len, self._asked.values()))


class Target(ABC):
    """The half at N2, which gets every batch of S2, in order.

    With marks, a half in `lockstep` is asked all about an interval before it gets the next batch. The others
    go ahead, and keep what has left W2 until it is released.
    """

    lockstep = False

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

    def next_leaving(self) -> int | None:
        """The first interval in which something leaves W2, as far as is known."""
        return None

    @property
    def held(self) -> int:
        """Tuples kept here."""
        return 0

    def release(self, interval: int) -> None:  # noqa: B027 - most keep nothing that waits for it
        """With marks: every batch of the source up to this interval has found all it could."""


class WindowTarget(Target, Receiver):
    """A half at N2 that keeps W2 and answers messages from it."""

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self.window = HeldWindow(
            join.target_key, join.interval_us, counted=not join.marks, leaves=join.marks and not self.lockstep
        )
        self._early: list[Message] = []
        self._settled = [Settled(join.first_interval) for _ in join.probes]

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
        return settled_by(self.join, self._settled, interval)

    def done(self, interval: int, probe: int) -> None:
        """Every match of a step's batch of this interval has been found, or put aside."""
        if not self.join.marks:
            self._settled[probe].add(interval)

    def leave(self, interval: int) -> list[Held]:
        """What leaves W2 before the batch of an interval comes."""
        if not self.join.marks:
            return self.window.settle(self.settled(interval))
        return self.window.settle(interval - 1) if self.lockstep else self.window.leave(interval - 1)

    def next_leaving(self) -> int | None:
        return self.window.next_leaving()

    @property
    def held(self) -> int:
        return len(self.window)

    def release(self, interval: int) -> None:
        if not self.lockstep:
            self.window.settle(interval)

    def probe_values(self, message: Values) -> Work:
        """The time a nested loop over W2 takes for the join values of a batch."""
        if not self.join.costs.probe_s:
            return Work(message.interval, "probe W2", 0.0)
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


def settled_by(join: Join, probes: Sequence[Settled], interval: int) -> int:
    """The last interval whose batches are settled for every probe, when this one has come."""
    return min(one.all_up_to for one in probes) if join.heartbeats else interval - join.lag


def ship(
    join: Join, message: Message, size_bytes: float, term: str, *, if_any: Sized, batch_bytes: float = 0.0
) -> Actions:
    """A message, if it has any content; with heartbeats always."""
    if join.heartbeats:
        return [Ship(message, size_bytes, term, HEARTBEAT_BYTES, batch_bytes)]
    return [Ship(message, size_bytes, term, 0.0, batch_bytes)] if if_any else []


def reply(join: Join, message: Message, content_bytes: float, term: str) -> Ship:
    """An answer that the other half waits for, with content or without."""
    return Ship(message, join.answer_bytes(content_bytes), term, HEARTBEAT_BYTES * join.heartbeats)


def distinct_keys(items: Sequence[Item], key_of: Callable[[Item], Key]) -> list[Key]:
    """The projection on the join attribute, each value once."""
    return list(dict.fromkeys(map(key_of, items)))


def ended_of(sent: Sequence[Held]) -> list[Ended]:
    return [(held.item.number, held.end) for held in sent if held.sent]


def probe_and_join(
    join: Join, probe: int, interval: int, term: str, items: Sequence[Item], window: HeldWindow
) -> Actions:
    """A step's batch meets a window: the time it takes, and the results."""
    return [
        probe_work(join, probe, interval, term, items, window),
        joined(join, probe, interval, items, window),
    ]


def joined(join: Join, probe: int, interval: int, items: Sequence[Item], window: HeldWindow) -> Output:
    """The T2-limit join of a step's batch with a window."""
    step = join.probes[probe]
    key_of, found, count = step.source_key, [], 0
    for item in () if step.silent else items:
        matches = window.matches(key_of(item), item.t, step.limit(item))
        count += len(matches)
        if not step.count_only:
            found += [Item(item.t, NEVER, 0, item.members + held.item.members) for held in matches]
    return Output(interval, found, count, probe)


def probe_work(
    join: Join, probe: int, interval: int, term: str, items: Sequence[Item], window: HeldWindow
) -> Work:
    """The time a nested loop over the window takes for these items."""
    if not join.costs.probe_s:
        return Work(interval, term, 0.0)
    limit = join.probes[probe].limit
    looked_at = sum(window.count_alive(item.t, limit(item)) for item in items)
    return Work(interval, term, looked_at * join.costs.probe_s)
