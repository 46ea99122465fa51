"""Halves of a one-way join, each handed what is due: by marks of how far everything has come.

A mark says that nothing of an interval up to it is still to come. No clock is asked and no bound on delays:
each half sees its stream's batches and the other half's messages as if all of them had come in their own
interval, so what it ships depends on event times alone. What has to wait waits here.

    at N2   W2's batch k is taken once W2's stream is complete up to k; by a half in lockstep, once everything
            is asked that concerns earlier intervals
    at N1   a batch of interval k probes the copy as the updates up to k have left it: an update of k + 1
            waits until the batches up to k of all steps that share it have probed
    both    what is held for tuples that may come late is released once no batch can ask for it

Intervals in which nothing happens cost nothing: those that count are the ones with tuples, with messages, and
those in which a tuple leaves W2. The waits have no cycle: what happens in an interval waits for earlier ones,
and for what comes before it in the plan.

Example: W2 leads by an hour. Its updates of that hour wait at N1, and take effect one by one as S1 comes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from watersmeet.plan.sites.semijoin.oneway.halves import Receiver, Source, Target
from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item
from watersmeet.plan.sites.semijoin.oneway.messages import Actions, Message
from watersmeet.query import BEGINNING, NEVER


class PacedTarget:
    """The half at N2."""

    def __init__(self, half: Target, probes: int) -> None:
        self.half = half
        self.mark = BEGINNING  # how far W2's stream has come
        self.updated = BEGINNING  # how far W2 has been brought up to it
        self.asked = [BEGINNING] * probes  # how far the source has come: with values, by step
        self.sent = [BEGINNING] * probes  # and with tuples
        self._batches: dict[int, tuple[Sequence[Item], Sequence[Ended]]] = {}
        self._order: list[int] = []
        self._messages: list[Message] = []

    def put(self, interval: int, items: Sequence[Item], ended: Sequence[Ended] = ()) -> None:
        """W2's batch of an interval."""
        self._batches[interval] = items, ended
        heappush(self._order, interval)

    def hear(self, message: Message) -> None:
        """A message of the source."""
        self._messages.append(message)

    def output_mark(self, probe: int) -> int:
        """How far a step's output is complete, where it is at this end."""
        waiting = [one.interval - 1 for one in self._messages if getattr(one, "probe", 0) == probe]
        return min(self.sent[probe], self.mark, *waiting)

    @property
    def waiting(self) -> int:
        """Tuples that wait here."""
        own = sum(len(items) for items, _ in self._batches.values())
        return own + sum(len(getattr(message, "items", ())) for message in self._messages)

    def run(self) -> Actions:
        """All that is due."""
        actions: Actions = []
        lockstep = self.half.lockstep
        while True:
            event = self._next_event()
            if event is not None and not lockstep:
                actions += self._update(event)
                continue
            actions += self._answer(self.mark + 1 if event is None else event)
            if event is None or event > min(self.asked) + 1:
                break
            actions += self._update(event)
        self.updated = self.mark
        self.half.release(min(self.mark, *self.asked))
        return actions

    def _next_event(self) -> int | None:
        """The first interval in which tuples come to W2 or leave it, if it is complete."""
        known = [*self._order[:1]]
        leaving = self.half.next_leaving()
        if leaving is not None:
            known.append(leaving)
        event = min(known, default=None)
        return event if event is not None and event <= self.mark else None

    def _update(self, interval: int) -> Actions:
        items, ended = self._batches.pop(interval, ((), ()))
        if self._order and self._order[0] == interval:
            heappop(self._order)
        return self.half.update(interval, items, ended)

    def _answer(self, before: int) -> Actions:
        """Answers what has been asked about intervals before this one."""
        due = [message for message in self._messages if message.interval < before]
        if not due:
            return []
        self._messages = [message for message in self._messages if message.interval >= before]
        half: Any = self.half
        return [action for message in due for action in half.answer(message)]


class PacedSource:
    """The half at N1."""

    def __init__(self, half: Source, probes: int) -> None:
        self.half = half
        self.marks = [BEGINNING] * probes  # how far the streams of the steps have come
        self.copied = BEGINNING  # how far the copy has
        self.asked = [BEGINNING] * probes  # how far batches have been processed
        self._batches: dict[tuple[int, int], Sequence[Item]] = {}
        self._order: list[tuple[int, int]] = []
        self._updates: deque[Message] = deque()
        self._heard: list[Message] = []

    def put(self, interval: int, probe: int, items: Sequence[Item]) -> None:
        """A step's batch of an interval."""
        if items:
            self._batches[interval, probe] = items
            heappush(self._order, (interval, probe))

    def hear(self, message: Message) -> None:
        """A message of the target: an answer, or an update of the copy."""
        if self.half.waits_its_turn(message):
            self._updates.append(message)
        else:
            self._heard.append(message)

    def sent(self, probe: int) -> int:
        """How far a step's batches have been answered."""
        pending = self.half.pending(probe)
        return self.asked[probe] if pending is None else min(self.asked[probe], pending - 1)

    @property
    def waiting(self) -> int:
        """Tuples that wait here."""
        own = sum(map(len, self._batches.values()))
        return own + sum(len(getattr(message, "items", ())) for message in (*self._updates, *self._heard))

    def run(self) -> Actions:
        """All that is due."""
        half: Any = self.half
        heard, self._heard = self._heard, []
        actions: Actions = [action for message in heard for action in half.receive(message)]
        while True:
            bound = self._bound()
            while self._order and self._order[0][0] <= bound:
                interval, probe = heappop(self._order)
                actions += half.process(interval, self._batches.pop((interval, probe)), probe)
            self.asked = [min(mark, bound) for mark in self.marks]
            if not self._updates or self._updates[0].interval - 1 > min(self.marks):
                break
            interval = self._updates[0].interval
            while self._updates and self._updates[0].interval == interval:
                assert isinstance(half, Receiver)
                actions += half.receive(self._updates.popleft())
        self.half.release(min(map(self.sent, range(len(self.marks)))))
        return actions

    def _bound(self) -> int:
        """The last interval whose batches may probe the copy as it is."""
        if not self.half.gated:
            return NEVER
        return self._updates[0].interval - 1 if self._updates else self.copied
