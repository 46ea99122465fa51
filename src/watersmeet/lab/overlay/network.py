"""The overlay a protocol runs on: messages addressed by key, delivered over a ring, every one counted.

The API is that of RJoin section 2: `send` to the node responsible for a key, `multi_send` to several with
grouped routing, `send_direct` to a known node in one hop; and the plain DHT's `put` and `get`. A protocol
never calls it: it handles a message and returns actions (`Send`, `MultiSend`, `Direct`, `Later`), which the
overlay carries out. Only the overlay touches time, randomness and the network.

Grouped routing: a group of messages travels clockwise from the sender, from one responsible node to the next,
the sender's own keys first, as one message; so d messages cost far fewer hops than d lookups, and keys of one
node share the way.

A hop is one message. `created` counts those sent by the node where a message starts, `routed` those that a
node passes on for others; their sum is the papers' network traffic.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.actions import (
    Action,
    Application,
    Direct,
    DirectGroup,
    Message,
    MultiSend,
    Send,
    everything,
    packed,
)
from watersmeet.lab.overlay.chord.living_ring import LivingRing, LookupFailed
from watersmeet.lab.overlay.chord.ring import Ring, arc_start, identifier
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.counters import Counters
from watersmeet.lab.simulation import NO_DELAY, Delay, Simulator

MAX_FORWARDS = 8  # how often a message may find the wrong node, in a ring not yet stable, before it is lost


@dataclass(frozen=True)
class Delivery:
    """One message that was delivered, for an observer.

    The path is the last leg of its route: from its sender, or in a group from the previous stop, to its node.
    """

    time_us: int
    source: int
    path: tuple[int, ...]
    message: Message
    key: str | None


class Overlay:
    """Carries a protocol's actions over a ring."""

    def __init__(
        self,
        ring: Ring,
        application: Application,
        *,
        seed: int = 0,
        delay: Delay = NO_DELAY,
        start_us: int = 0,
        counters: Counters | None = None,
        watch: Callable[[Delivery], None] | None = None,
    ) -> None:
        self.ring = ring
        self.application = application
        self.simulator = Simulator(start_us)
        self.delay = delay
        self.counters = counters or Counters(ring.capacity)
        self._rng = random.Random(seed)
        self._watch = watch
        self._is_living = isinstance(ring, LivingRing)
        self._identifiers: dict[str, int] = {}
        self._moved_to: dict[int, int] = {}
        self._values: dict[int, dict[str, list[Any]]] = {}

    @property
    def now_us(self) -> int:
        return self.simulator.now_us

    def identifier(self, key: str) -> int:
        """Hash(key), computed once."""
        found = self._identifiers.get(key)
        if found is None:
            found = self._identifiers[key] = identifier(key, self.ring.bits)
        return found

    def owner(self, key: str) -> int:
        """The node responsible for a key now."""
        return self.ring.owner(self.identifier(key))

    def run(self, until_us: int | None = None) -> int:
        """Lets everything scheduled happen."""
        return self.simulator.run(until_us)

    def perform(self, node: int, actions: Iterable[Action]) -> None:
        """Carries out what a node decided."""
        for action in actions:
            if isinstance(action, MultiSend):
                self.multi_send(node, action.pairs)
            elif isinstance(action, Direct):
                self.send_direct(node, action.message, action.address, action.key)
            elif isinstance(action, Send):
                self.send(node, action.message, action.key)
            elif isinstance(action, DirectGroup):
                self._send_group(node, action.pairs, action.address)
            else:
                self.simulator.after(action.delay_us, self._deliver, node, node, action.message, None)

    def send(self, source: int, message: Message, key: str) -> None:
        """Delivers a message to the node responsible for a key, in O(log N) hops."""
        self.multi_send(source, ((message, key),))

    def multi_send(self, source: int, pairs: Sequence[tuple[Message, str]]) -> None:
        """Delivers each message to its key's node; all travel together, clockwise from the sender."""
        if not pairs:
            return
        if len(pairs) == 1:
            stops = [(self.identifier(pairs[0][1]), pairs[0][0], pairs[0][1])]
        else:
            origin, span = arc_start(self.ring, source), 1 << self.ring.bits
            stops = [(self.identifier(key), message, key) for message, key in pairs]
            stops.sort(key=lambda stop: (stop[0] - origin) % span)
        try:
            reached = self.ring.tour(source, [stop[0] for stop in stops], self.counters.routed)
        except LookupFailed:
            for _, message, _ in stops:
                self.counters.lost[message.kind] += 1
            return
        if self.counters.alone is not None:
            self._count_alone(source, stops)
        self._count_created(source, reached[-1][1])
        made, elapsed, here = 0, 0, source
        for (target, message, key), (node, total) in zip(stops, reached, strict=True):
            if total > made:
                self.counters.traffic[message.kind] += total - made
                elapsed += self.delay.over(total - made, self._rng)
            if self._watch:
                self._show(source, here, target, message, key, elapsed)
            made, here = total, node
            self.simulator.after(elapsed, self._deliver, source, node, message, key)

    def _count_created(self, source: int, hops: int) -> None:
        """The first hop is the sender's own message; the ring counted it as routed."""
        if hops:
            self.counters.routed[source] -= 1
            self.counters.created[source] += 1

    def _count_alone(self, source: int, stops: Sequence[tuple[int, Message, str]]) -> None:
        """Counts what the same messages would cost unpacked, each with a lookup of its own."""
        assert self.counters.alone is not None
        hops = self.ring.hops(source, [stop[0] for stop in stops])
        for (_, message, _), alone in zip(stops, hops, strict=True):
            self.counters.alone[message.kind] += alone * packed(message)

    def _show(self, source: int, here: int, target: int, message: Message, key: str, elapsed: int) -> None:
        assert self._watch
        path = (here, *self.ring.path(here, target))
        self._watch(Delivery(self.now_us + elapsed, source, path, message, key))

    def send_direct(self, source: int, message: Message, address: int, key: str | None = None) -> None:
        """Delivers a message to a known node in one hop."""
        if address != source:
            self._count_direct(source, (message,))
        elapsed = self.delay.over(int(address != source), self._rng)
        if self._watch:
            path = (source, address) if address != source else (source,)
            self._watch(Delivery(self.now_us + elapsed, source, path, message, key))
        self.simulator.after(elapsed, self._deliver, source, address, message, key, True)

    def _count_direct(self, source: int, messages: Sequence[Message]) -> None:
        """One hop that takes all of these along."""
        kind = messages[0].kind
        self.counters.created[source] += 1
        self.counters.traffic[kind] += 1
        if self.counters.alone is not None:
            self.counters.alone[kind] += sum(map(packed, messages))

    def _send_group(self, source: int, pairs: Sequence[tuple[Message, str]], address: int) -> None:
        elapsed = 0
        if address != source:
            self._count_direct(source, [message for message, _ in pairs])
            elapsed = self.delay.over(1, self._rng)
        for message, key in pairs:
            if self._watch:
                path = (source, address) if address != source else (source,)
                self._watch(Delivery(self.now_us + elapsed, source, path, message, key))
            self.simulator.after(elapsed, self._deliver, source, address, message, key, True)

    def _deliver(
        self,
        source: int,
        node: int,
        message: Message,
        key: str | None,
        direct: bool = False,
        forwards: int = 0,
    ) -> None:
        if not self.ring.is_alive(node):
            self._redirect(node, message, key)
        elif key is not None and (direct or self._is_living) and not self._is_responsible(node, key):
            self._forward(source, node, message, key, forwards)
        else:
            self.perform(node, self.application.receive(node, message, self.simulator.now_us, self._rng))

    def _forward(self, source: int, node: int, message: Message, key: str, forwards: int) -> None:
        """A message addressed before the ring changed goes on to the node responsible now."""
        try:
            if forwards == MAX_FORWARDS:
                raise LookupFailed(f"nobody takes {key}")
            onward, hops = self.ring.tour(node, [self.identifier(key)], self.counters.routed)[0]
        except LookupFailed:
            self.counters.lost[message.kind] += 1
            return
        self.counters.traffic[message.kind] += hops
        elapsed = self.delay.over(hops, self._rng)
        self.simulator.after(elapsed, self._deliver, source, onward, message, key, True, forwards + 1)

    def _redirect(self, node: int, message: Message, key: str | None) -> None:
        """A message for a node that is gone: one that left has an heir, one that failed has not."""
        if node not in self._moved_to:
            self.counters.lost[message.kind] += 1
        else:
            self.send_direct(node, message, self._moved_to[node], key)

    def _is_responsible(self, node: int, key: str) -> bool:
        """Whether a node would keep a key; on a living ring as far as it knows."""
        if isinstance(self.ring, LivingRing):
            return self.ring.is_responsible(node, self.identifier(key))
        return self.owner(key) == node

    def put(self, source: int, key: str, value: object) -> None:
        """Stores a value under a key at the node responsible for it."""
        self._ask(
            source, key, lambda node: self._values.setdefault(node, {}).setdefault(key, []).append(value)
        )

    def get(self, source: int, key: str, then: Callable[[list[Any]], object]) -> None:
        """Fetches the values under a key and calls `then` with them once the answer is back."""

        def reply(node: int) -> None:
            found = list(self._values.get(node, {}).get(key, ()))
            if node != source:
                self.counters.created[node] += 1
                self.counters.traffic["get"] += 1
            self.simulator.after(self.delay.over(int(node != source), self._rng), then, found)

        self._ask(source, key, reply)

    def _ask(self, source: int, key: str, action: Callable[[int], object]) -> None:
        try:
            node, hops = self.ring.tour(source, [self.identifier(key)], self.counters.routed)[0]
        except LookupFailed:
            self.counters.lost["lookup"] += 1
            return
        self._count_created(source, hops)
        self.counters.traffic["lookup"] += hops
        self.simulator.after(self.delay.over(hops, self._rng), action, node)

    def join(self, name: str, via: int, node: int | None = None, at_id: int | None = None) -> int:
        """A node enters, at the hash of its name or at an identifier it wants, and takes over its keys."""
        ring = self._living()
        own_id = identifier(name, ring.bits) if at_id is None else at_id
        node = ring.join(own_id, via, node)
        self.counters.grow(ring.capacity)
        self._moved_to.pop(node, None)
        self._take_over(ring.successor(node), node)
        return node

    def leave(self, node: int) -> int:
        """A node announces that it goes; its successor takes over all it kept."""
        heir = self._living().leave(node)
        self._moved_to[node] = heir
        moved = self.application.hand_over(node, heir, everything)
        self._values.setdefault(heir, {}).update(self._values.pop(node, {}))
        self._count_transfer(node, moved)
        return heir

    def fail(self, node: int) -> int:
        """A node fails silently and all it kept is lost; says how many items that was."""
        self._living().fail(node)
        self._values.pop(node, None)
        return self.application.forget(node)

    def move_ids(self, moved: dict[int, int]) -> int:
        """On a stable ring: nodes take other identifiers, keys follow; says how many items moved."""
        if not isinstance(self.ring, StableRing):
            raise ConfigurationError("identifiers move on a stable ring; on a living one leave and join")
        before = self.ring
        self.ring = before.with_ids(moved)
        holders = {*moved, *(before.successor(node) for node in moved)}
        holders |= {self.ring.successor(node) for node in moved}
        items = 0
        for holder in sorted(holders):
            items += self._give_away(holder)
        return items

    def _give_away(self, holder: int) -> int:
        """A node gives every key that is no longer its own to the key's owner."""
        strays: set[int] = set()

        def note(key: str) -> bool:
            owner = self.owner(key)
            if owner != holder:
                strays.add(owner)
            return False

        self.application.hand_over(holder, holder, note)
        return sum(self._take_over(holder, heir) for heir in sorted(strays))

    def _take_over(self, node: int, heir: int) -> int:
        moved = self.application.hand_over(node, heir, lambda key: self.owner(key) == heir)
        self._count_transfer(node, moved)
        kept = self._values.get(node, {})
        for key in [key for key in kept if self.owner(key) == heir]:
            self._values.setdefault(heir, {})[key] = kept.pop(key)
        return moved

    def _count_transfer(self, node: int, items: int) -> None:
        """A transfer of state is one message, however much it holds."""
        if items:
            self.counters.created[node] += 1
            self.counters.traffic["hand over"] += 1

    def _living(self) -> LivingRing:
        if not isinstance(self.ring, LivingRing):
            raise ConfigurationError("only a living ring takes joins, leaves and failures")
        return self.ring
