"""DHTJoin on an overlay: queries and tuples in, answers and counters out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from watersmeet.lab.overlay.chord.ring import Ring
from watersmeet.lab.overlay.counters import Counters
from watersmeet.lab.overlay.dhtjoin.operators import Published
from watersmeet.lab.overlay.dhtjoin.protocol import DhtJoin, Row, Settings
from watersmeet.lab.overlay.dhtjoin.query_table import QueryEntry, query_entry
from watersmeet.lab.overlay.network import Delivery, Overlay
from watersmeet.lab.simulation import NO_DELAY, Delay
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.sites.dhtjoin import plan_dhtjoin
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query

# The traffic the papers compare: what disseminates queries and indexes tuples and partial results. Answers
# go to the one who asked, under any method.
INDEXING = ("disseminate", "gossip", "index tuple", "index partial results", "test", "alert")


@dataclass(frozen=True)
class TupleArrival:
    """A tuple, when and where it enters; its values hold the event time where its stream declares one."""

    at_us: int
    node: int
    stream: str
    tuple_: Tuple


@dataclass(frozen=True)
class QueryArrival:
    """A query, when and where it is posed."""

    at_us: int
    node: int
    qid: str
    query: Query


@dataclass
class DhtJoinNetwork:
    """An overlay on which DHTJoin runs."""

    overlay: Overlay
    protocol: DhtJoin
    rng: random.Random

    @property
    def answers(self) -> Mapping[str, list[Row]]:
        return self.protocol.answers

    @property
    def traffic(self) -> Counter[str]:
        """Hops by kind of message."""
        return self.overlay.counters.traffic

    @property
    def indexing_traffic(self) -> int:
        """All hops but those of answers."""
        return sum(self.traffic[kind] for kind in INDEXING)

    def submit_at(self, arrival: QueryArrival, known: Statistics) -> None:
        """A query is planned and asked at its time and node."""
        plan = plan_dhtjoin(arrival.query, known)
        entry = query_entry(arrival.qid, arrival.node, arrival.query, plan, arrival.at_us)
        # At equal instants a query comes before a tuple: it sees what is inserted from then on.
        self.overlay.simulator.at(arrival.at_us, self._submit, entry, priority=-1)

    def insert_at(self, arrival: TupleArrival) -> None:
        """A tuple enters at its time and node."""
        # After all messages of the instant: where they take no time, a query is known everywhere by then.
        self.overlay.simulator.at(arrival.at_us, self._insert, arrival, priority=1)

    def _submit(self, entry: QueryEntry) -> None:
        self.overlay.perform(entry.owner, self.protocol.submit(entry, self.rng, self.overlay.now_us))

    def _insert(self, arrival: TupleArrival) -> None:
        tuple_ = arrival.tuple_
        published = Published(arrival.stream, tuple_.values, tuple_.ts, arrival.at_us, arrival.node)
        self.overlay.perform(arrival.node, self.protocol.insert(published))


def delivery_bound_us(ring: Ring, delay: Delay) -> int:
    """The longest a message can take: no lookup on a stable ring has more hops than nodes or bits."""
    return delay.bound_us * min(ring.capacity, ring.bits)


def start_dhtjoin(
    ring: Ring,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    delay: Delay = NO_DELAY,
    start_us: int = 0,
    watch: Callable[[Delivery], None] | None = None,
) -> DhtJoinNetwork:
    """DHTJoin on a ring, with nothing scheduled yet."""
    counters = Counters(ring.capacity)
    protocol = DhtJoin(ring, counters, settings or Settings(delivery_us=delivery_bound_us(ring, delay)))
    overlay = Overlay(
        ring, protocol, seed=seed, delay=delay, start_us=start_us, counters=counters, watch=watch
    )
    return DhtJoinNetwork(overlay, protocol, random.Random(f"{seed} owners"))
