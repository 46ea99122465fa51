"""The simple joins SP-S and SP-D: full tuples go where the join is (Tran and Lee 2010, Algorithms 1 and 2).

SP-S exports W2: every batch of S2 goes to the source, where W2@N1 is kept and probed. SP-D sends every batch
of S1 to the destination. Under a ROWS window SP-S sends the ends of earlier tuples along, as the source
does not see the tuples that S2's own filters dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.plan.sites.semijoin.oneway.halves import (
    Join,
    Receiver,
    Settled,
    Source,
    Target,
    WindowTarget,
    probe_and_join,
    settled_by,
    ship,
)
from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item
from watersmeet.plan.sites.semijoin.oneway.messages import END_BYTES, NUMBER_BYTES, Actions, Tuples, Work
from watersmeet.plan.sites.semijoin.oneway.window import HeldWindow


class SimpleAtSource(Source, Receiver):
    """SP-S at N1: keeps and probes W2@N1."""

    gated = True

    def __init__(self, join: Join) -> None:
        super().__init__(join)
        self.window = HeldWindow(join.target_key, join.interval_us, counted=not join.marks)
        self._probed = [Settled(join.first_interval) for _ in join.probes]

    def process(self, interval: int, items: Sequence[Item], probe: int) -> Actions:
        if not self.join.marks:
            self._probed[probe].add(interval)
        return [
            Work(interval, "update W1", len(items) * self.join.costs.update_s),
            *probe_and_join(self.join, probe, interval, "probe W2@N1", items, self.window),
        ]

    def receive(self, message: Tuples) -> Actions:
        if not self.join.silent:
            self.window.insert(message.items)
            self.window.learn(message.ended)
        work = Work(message.interval, "update W2@N1", len(message.items) * self.join.costs.update_s)
        actions = [work, *self.received(message.interval)]
        if not self.join.marks:
            self.release(settled_by(self.join, self._probed, message.interval))
        return actions

    def release(self, interval: int) -> None:
        self.window.settle(interval)

    @property
    def held(self) -> int:
        return len(self.window)


class SimpleAtSourceTarget(Target):
    """SP-S at N2: keeps nothing, sends all."""

    def update(self, interval: int, items: Sequence[Item], ended: Sequence[Ended]) -> Actions:
        batch = len(items) * self.join.target_bytes
        size = batch + len(ended) * (NUMBER_BYTES + END_BYTES)
        message = Tuples(interval, items, ended)
        return ship(self.join, message, size, "ship B2", if_any=[*items, *ended], batch_bytes=batch)


class SimpleToDestination(Source):
    """SP-D at N1: sends every batch."""

    def process(self, interval: int, items: Sequence[Item], probe: int) -> Actions:
        size = len(items) * self.join.probes[probe].source_bytes
        message = Tuples(interval, items, probe=probe)
        return [
            Work(interval, "update W1", len(items) * self.join.costs.insert_s),
            *ship(self.join, message, size, "ship B1", if_any=items, batch_bytes=size),
        ]


class SimpleAtDestination(WindowTarget):
    """SP-D at N2: keeps and probes W2."""

    def update(self, interval: int, items: Sequence[Item], ended: Sequence[Ended]) -> Actions:
        if not self.join.silent:
            self.window.insert(items)
            self.window.learn(ended)
            self.leave(interval)
        return [Work(interval, "update W2", len(items) * self.join.costs.update_s)]

    def answer(self, message: Tuples) -> Actions:
        self.done(message.interval, message.probe)
        return probe_and_join(
            self.join, message.probe, message.interval, "probe W2", message.items, self.window
        )
