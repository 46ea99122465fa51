"""The semijoins with output at the destination: SM-D1, SM-D2 (Tran and Lee 2010, Algorithms 5 and 6), SM-B.

SM-D1 keeps W2's join values at the source, V2@N1, and sends the tuples of a batch that match one. SM-D2 sends
the batch's join values, gets back those that match, and sends their tuples; what they match waits in Temp.
SM-B, which the paper leaves to future work, is SM-D1 with a Bloom filter in place of V2@N1: some tuples that
match nothing are shipped (counted as wasted), and the join at the destination finds that they do not.

Guarantee: a tuple of the batch is shipped at most once.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.plan.sites.semijoin.filter import flip_bytes
from watersmeet.plan.sites.semijoin.oneway.bloom import CountingFilter, FilterMirror
from watersmeet.plan.sites.semijoin.oneway.halves import (
    AskingSource,
    Join,
    Receiver,
    Source,
    WindowTarget,
    probe_and_join,
    reply,
    ship,
)
from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, Key
from watersmeet.plan.sites.semijoin.oneway.messages import (
    Actions,
    Flips,
    Output,
    Tuples,
    Values,
    Vectors,
    Wasted,
    Work,
)
from watersmeet.plan.sites.semijoin.oneway.vectors import ValueArray, ValueMirror
from watersmeet.plan.sites.semijoin.oneway.window import Held
from watersmeet.query import NEVER


def _ship_reduced(join: Join, interval: int, reduced: Sequence[Item], probe: int) -> Actions:
    size = len(reduced) * join.probes[probe].source_bytes
    return ship(join, Tuples(interval, reduced, probe=probe), size, "ship B'1", if_any=reduced)


class OneStepToDestination(Source, Receiver):
    """SM-D1 at N1: keeps V2@N1."""

    gated = True

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self.values = ValueMirror()

    def process(self, interval: int, items: Sequence[Item], probe: int) -> Actions:
        costs, key_of = self.join.costs, self.join.probes[probe].source_key
        reduced = [item for item in items if key_of(item) in self.values]
        return [
            Work(interval, "update W1", len(items) * costs.insert_s),
            Work(interval, "probe V2@N1", len(items) * len(self.values) * costs.probe_s),
            *_ship_reduced(self.join, interval, reduced, probe),
        ]

    def receive(self, message: Vectors) -> Actions:
        actions: Actions = []
        if message.update:
            self.values.apply(message.update)
            fresh = len(message.update.values)
            actions.append(Work(message.interval, "update V2, V2@N1", fresh * self.join.costs.insert_s))
        return actions + self.received(message.interval)


class OneStepDestination(WindowTarget):
    """SM-D1 at N2: keeps V2 beside W2."""

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self.values = ValueArray(join.target_key, join.vectors)

    def update(self, interval: int, items: Sequence[Item], ended: Sequence[Ended]) -> Actions:
        costs = self.join.costs
        probed = len(items) * len(self.values)
        inserted = self.window.insert(items)
        self.window.learn(ended)
        update = self.values.update(inserted, self.leave(interval))
        fresh, size = 0, 0.0
        if update:
            fresh = len(update.values)
            size = update.bytes(self.join.target_key_bytes, costs.count_bytes)
        something = [update] if update else []
        return [
            Work(interval, "probe V2", probed * costs.probe_s),
            Work(interval, "update W2", len(items) * costs.insert_s),
            Work(interval, "update V2, V2@N1", fresh * costs.insert_s),
            *ship(self.join, Vectors(interval, update), size, "ship vC vJ", if_any=something),
        ]

    def answer(self, message: Tuples) -> Actions:
        self.done(message.interval, message.probe)
        return probe_and_join(
            self.join, message.probe, message.interval, "probe W2", message.items, self.window
        )


class TwoStepToDestination(AskingSource):
    """SM-D2 at N1: keeps a batch until it knows which of its values match."""

    def receive(self, message: Values) -> Actions:
        items, matching = self._asked.pop((message.interval, message.probe)), set(message.values)
        key_of = self.join.probes[message.probe].source_key
        reduced = [item for item in items if key_of(item) in matching]
        scanned = len(matching) * len(items)
        return [
            Work(message.interval, "probe B1", scanned * self.join.costs.probe_s),
            *_ship_reduced(self.join, message.interval, reduced, message.probe),
        ]


class TwoStepDestination(WindowTarget):
    """SM-D2 at N2: keeps W2, and what a batch's values match until its tuples come."""

    lockstep = True

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self._temp: dict[tuple[int, int], dict[Key, list[Held]]] = {}  # by interval and probe

    def update(self, interval: int, items: Sequence[Item], ended: Sequence[Ended]) -> Actions:
        self.window.insert(items)
        self.window.learn(ended)
        self.leave(interval)
        return [Work(interval, "update W2", len(items) * self.join.costs.update_s)]

    @property
    def held(self) -> int:
        temp = (held for keys in self._temp.values() for held in keys.values())
        return super().held + sum(map(len, temp))

    def answer(self, message: Values | Tuples) -> Actions:
        return self._match(message) if isinstance(message, Values) else self._join(message)

    def _match(self, message: Values) -> Actions:
        join, interval, probe = self.join, message.interval, message.probe
        matching = [key for key in message.values if key in self.window]
        if matching and not join.probes[probe].silent:
            self._temp[interval, probe] = {key: self.window.with_key(key) for key in matching}
        size = len(matching) * join.probes[probe].source_key_bytes
        return [
            self.probe_values(message),
            reply(join, Values(interval, matching, probe), size, "ship K'1"),
        ]

    def _join(self, message: Tuples) -> Actions:
        step, temp = (
            self.join.probes[message.probe],
            self._temp.pop((message.interval, message.probe), {}),
        )
        self.done(message.interval, message.probe)
        found: list[Item] = []
        count = 0
        for item in () if step.silent else message.items:
            limit = step.limit(item)
            matches = [h for h in temp[step.source_key(item)] if h.t <= limit and h.end > item.t]
            count += len(matches)
            if not step.count_only:
                found += [Item(item.t, NEVER, 0, item.members + held.item.members) for held in matches]
        scanned = len(message.items) * sum(map(len, temp.values()))
        return [
            Work(message.interval, "probe Temp", scanned * self.join.costs.probe_s),
            Output(message.interval, found, count, message.probe),
        ]


class FilterToDestination(Source, Receiver):
    """SM-B at N1: keeps a Bloom filter of W2's join values."""

    gated = True

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self._filter = FilterMirror(join.filter_bits, join.filter_hashes)

    def process(self, interval: int, items: Sequence[Item], probe: int) -> Actions:
        costs, key_of = self.join.costs, self.join.probes[probe].source_key
        reduced = [item for item in items if key_of(item) in self._filter]
        return [
            Work(interval, "update W1", len(items) * costs.insert_s),
            Work(interval, "probe filter", len(items) * self.join.filter_hashes * costs.hash_s),
            *_ship_reduced(self.join, interval, reduced, probe),
        ]

    def receive(self, message: Flips) -> Actions:
        self._filter.flip(message.bits)
        return self.received(message.interval)


class FilterDestination(WindowTarget):
    """SM-B at N2: counts the values behind each bit, and joins exactly."""

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self._filter = CountingFilter(join.filter_bits, join.filter_hashes)

    def update(self, interval: int, items: Sequence[Item], ended: Sequence[Ended]) -> Actions:
        join = self.join
        self.window.insert(items)
        self.window.learn(ended)
        gone = self.leave(interval)
        flips = self._filter.update(map(join.target_key, items), [join.target_key(h.item) for h in gone])
        changes = (len(items) + len(gone)) * join.filter_hashes
        size = flip_bytes(len(flips), join.filter_bits)
        return [
            Work(interval, "update W2", len(items) * join.costs.insert_s),
            Work(interval, "update filter", changes * join.costs.hash_s),
            *ship(join, Flips(interval, flips), size, "ship flips", if_any=flips),
        ]

    def answer(self, message: Tuples) -> Actions:
        probe = message.probe
        key_of = self.join.probes[probe].source_key
        self.done(message.interval, probe)
        wasted = sum(key_of(item) not in self.window for item in message.items)
        return [
            Wasted(message.interval, wasted),
            *probe_and_join(self.join, probe, message.interval, "probe W2", message.items, self.window),
        ]
