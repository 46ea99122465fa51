"""An RJoin network to use: pose queries, publish tuples, read answers and counters.

network = RJoinNetwork(StableRing.of(100), Settings(strategy="ric"))
number = network.submit(query)
network.publish(stream, (1, 2, 3))
network.run()
network.answers.of(number)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.chord.ring import Ring, arc_start
from watersmeet.lab.overlay.counters import Counters
from watersmeet.lab.overlay.network import Delivery, Overlay
from watersmeet.lab.overlay.rjoin.answers import Answers
from watersmeet.lab.overlay.rjoin.messages import Publish, Submit
from watersmeet.lab.overlay.rjoin.protocol import RJoin
from watersmeet.lab.overlay.rjoin.query import JoinQuery, Published
from watersmeet.lab.overlay.rjoin.settings import Settings, query_transit_us, tuple_transit_us
from watersmeet.lab.simulation import NO_DELAY, Delay
from watersmeet.query import BEGINNING, NEVER, Query, Stream


class RJoinNetwork:
    """A ring whose nodes run RJoin. Queries and tuples enter at random nodes unless a node is given."""

    def __init__(
        self,
        ring: Ring,
        settings: Settings | None = None,
        *,
        seed: int = 0,
        delay: Delay = NO_DELAY,
        start_us: int = 0,
        watch: Callable[[Delivery], None] | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.counters = Counters(ring.capacity)
        self.rjoin = RJoin(
            self.settings, self.counters, lambda node: arc_start(self.overlay.ring, node), ring.bits
        )
        self.overlay = Overlay(
            ring,
            self.rjoin,
            seed=seed,
            delay=delay,
            start_us=start_us,
            counters=self.counters,
            watch=watch,
        )
        self._rng = random.Random(seed + 1)
        self._queries = 0
        self._tuples = 0

    @property
    def answers(self) -> Answers:
        return self.rjoin.answers

    @property
    def now_us(self) -> int:
        return self.overlay.now_us

    def submit(
        self, query: Query, *, node: int | None = None, at_us: int | None = None, one_time: bool = False
    ) -> int:
        """Poses a query, now or at an instant; says its number. A one-time query asks of the past alone."""
        settings = self.settings
        if one_time and settings.altt_us != NEVER:
            raise ConfigurationError("a one-time query needs the tuples of the past: set altt_us=NEVER")
        if any(item.window.counts_rows for item in query.inputs) and not settings.tuple_windows:
            raise ConfigurationError("a ROWS window needs counted relations: set tuple_windows=True")
        at_us = self.now_us if at_us is None else at_us
        since_us, until_us = (BEGINNING, at_us) if one_time else (at_us, NEVER)
        owner = self._some_node() if node is None else node
        self._queries += 1
        prepared = JoinQuery(
            self._queries, query, owner=owner, keys=self.rjoin.keys, since_us=since_us, until_us=until_us
        )
        self._enter(at_us, owner, Submit(prepared))
        return self._queries

    def publish(
        self,
        stream: Stream,
        values: Iterable[Any] | Mapping[str, Any],
        *,
        node: int | None = None,
        at_us: int | None = None,
    ) -> None:
        """Publishes a tuple, now or at an instant, which is its publication time."""
        at_us = self.now_us if at_us is None else at_us
        if isinstance(values, Mapping):
            named = {**values, stream.event_time: at_us} if stream.event_time else values
            values = [named[column.name] for column in stream.columns]
        self._tuples += 1
        tuple_ = Published(self._tuples, stream, at_us, tuple(values))
        if len(tuple_.values) != len(stream.columns):
            raise ConfigurationError(f"{tuple_.pretty()} does not have {len(stream.columns)} values")
        self._enter(at_us, self._some_node() if node is None else node, Publish(tuple_))

    def run(self, until_us: int | None = None) -> None:
        """Lets everything happen that follows from what was posed and published."""
        self.overlay.run(until_us)

    def _enter(self, at_us: int, node: int, message: Submit | Publish) -> None:
        self.overlay.simulator.at(at_us, self._receive, node, message)

    def _receive(self, node: int, message: Submit | Publish) -> None:
        overlay = self.overlay
        entry = node if overlay.ring.is_alive(node) else overlay.ring.owner(0)
        actions = self.rjoin.receive(entry, message, overlay.now_us, self._rng)
        overlay.perform(entry, actions)

    def _some_node(self) -> int:
        nodes = self.overlay.ring.nodes
        return nodes[self._rng.randrange(len(nodes))]


def safe_settings(settings: Settings, delay: Delay, nodes: int, queries: Sequence[Query]) -> Settings:
    """Settings under which no answer is lost to delays: Delta and the transit bound for these queries."""
    streams = [stream for query in queries for stream in query.streams]
    attributes = max((len(stream.columns) for stream in streams), default=1)
    candidates = max((len(query.inputs) for query in queries), default=1)
    altt_us = settings.altt_us
    if altt_us is not None and altt_us != NEVER:
        altt_us = query_transit_us(delay.bound_us, nodes, candidates)
    return replace(
        settings,
        altt_us=altt_us,
        transit_us=tuple_transit_us(delay.bound_us, nodes, attributes),
        tuple_windows=settings.tuple_windows
        or any(item.window.counts_rows for query in queries for item in query.inputs),
    )
