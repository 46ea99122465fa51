"""One workload for the overlay lab and for rings, and what each of them counts of it.

What counts the same thing where, over all batches:

    tuples indexed         DHTJoin: tuples sent, by lane (stream and attribute)
                           ring: `indexed` by feed; on Spark `sent`, the sum of all feeds
    everything indexed     RJoin: tuples sent at the value level, by every attribute that has a value, and
                           as many again at the attribute level
                           on Spark `sent_by_all`, where NULL counts as a value
    intermediate results   DHTJoin: partial results sent on
                           ring: `stored`
    results of joins       DHTJoin: what its operators find, sent on or not
                           ring: `combinations`, also level by level
    rewritten queries      RJoin: rewritten queries of a chain that hold two tuples or more (those that hold
                           one are the tuples of its first relation)
                           ring: `stored`, of that query alone
    answers                both: rows sent to who asked
                           ring: `answers`

They count the same under the same plans. `STATISTICS` make one stream slow, so that all chains are joined
from there on, by DHTJoin's planner, by the ring's, and by RJoin, which follows the WHERE clause; and no query
has a join that another would rather use (the ring shares joins, DHTJoin plans each query alone). Local
filters are left out: DHTJoin checks them before it sends a tuple, a ring after its joins.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from watersmeet.lab.overlay.actions import Action
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.counters import Counters
from watersmeet.lab.overlay.dhtjoin.messages import IndexPartial, IndexTuple
from watersmeet.lab.overlay.dhtjoin.network import DhtJoinNetwork, QueryArrival, TupleArrival
from watersmeet.lab.overlay.dhtjoin.operators import Operator, Partial
from watersmeet.lab.overlay.dhtjoin.protocol import DhtJoin, Node
from watersmeet.lab.overlay.network import Delivery, Overlay
from watersmeet.lab.overlay.rjoin.messages import Eval, NewTuple
from watersmeet.lab.overlay.rjoin.network import RJoinNetwork
from watersmeet.lab.overlay.rjoin.query import Rewriting
from watersmeet.lab.overlay.rjoin.settings import Settings
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Column, Query, Stream
from watersmeet.sql import bind_query

SECOND_US = 1_000_000
NODES = 16
KEYS = 12
TUPLES_PER_S = {"r0": 2, "r1": 8, "r2": 10, "r3": 12}
BATCH_S = 4
ATTRIBUTES = ("a", "b", "c", "d", "e")
NAMES = tuple(TUPLES_PER_S)
STATISTICS = Statistics(
    {
        name: StreamStatistics(
            rate, attributes={column: AttributeStatistics(distinct=KEYS) for column in ATTRIBUTES}
        )
        for name, rate in TUPLES_PER_S.items()
    }
)


def _select(streams: Iterable[str], where: str, columns: str) -> str:
    froms = ", ".join(f"{name} [RANGE {2 + int(name[1])} SECONDS]" for name in streams)
    return f"SELECT {columns} FROM {froms} WHERE {where}"


_SAME = "r0.a = r1.a AND r1.a = r2.a"
QUERIES = {
    "type_1": _select(NAMES[:3], _SAME, "r0.d AS d0, r1.d AS d1, r2.d AS d2"),
    "type_1_if": _select(NAMES[:3], f"{_SAME} AND r0.d < r2.d", "r0.d AS d0, r1.c AS c1, r2.a AS a2"),
    "pair": _select(NAMES[2:], "r2.d = r3.d", "r2.a AS a2, r3.a AS a3"),
    "chain_3": _select(NAMES[:3], "r0.a = r1.a AND r1.b = r2.b", "r0.d AS d0, r1.d AS d1, r2.d AS d2"),
    "chain_4": _select(
        NAMES, "r0.a = r1.a AND r1.b = r2.b AND r2.c = r3.c", "r0.b AS b0, r2.d AS d2, r3.d AS d3"
    ),
    "chain_back": _select(("r0", "r3", "r1"), "r0.b = r3.b AND r3.a = r1.c", "r0.d AS d0, r1.d AS d1"),
}
CHAINS = ("chain_3", "chain_4", "chain_back")  # each in the order of its WHERE clause
LEVELS = 3


def lab_streams() -> tuple[Stream, ...]:
    """The schema as the papers have it: the time of a tuple is that of its publication, no attribute."""
    return tuple(Stream(name, tuple(Column(column, "bigint") for column in ATTRIBUTES)) for name in NAMES)


def ring_streams() -> tuple[Stream, ...]:
    """The same with an event time."""
    return tuple(Stream(s.name, (*s.columns, Column("ts", "timestamp")), "ts") for s in lab_streams())


def bind(streams: Sequence[Stream], names: Iterable[str] = QUERIES) -> dict[str, Query]:
    return {name: bind_query(QUERIES[name], streams) for name in names}


def draw_batches(seed: int, count: int) -> list[MicroBatch]:
    """Tuples in the order of their times, cut into batches by time; some values are missing."""
    rng = random.Random(seed)
    batches = []
    for number in range(count):
        batch = {}
        for name, rate in TUPLES_PER_S.items():
            first = (1 + number * BATCH_S) * SECOND_US
            times = sorted(rng.randrange(first, first + BATCH_S * SECOND_US) for _ in range(rate * BATCH_S))
            batch[name] = [Tuple(ts, {column: _value(rng) for column in ATTRIBUTES}) for ts in times]
        batches.append(batch)
    return batches


def _value(rng: random.Random) -> int | None:
    return None if rng.random() < 0.05 else rng.randrange(KEYS)


def arrivals(batches: Sequence[MicroBatch]) -> Iterator[tuple[str, Tuple]]:
    """All tuples by time."""
    everything = [(name, t) for batch in batches for name, tuples in batch.items() for t in tuples]
    yield from sorted(everything, key=lambda arrival: (arrival[1].ts, arrival[0]))


def count_nulls(batches: Sequence[MicroBatch]) -> int:
    return sum(t.values[column] is None for _, t in arrivals(batches) for column in ATTRIBUTES)


@dataclass
class DhtJoinCounts:
    """What DHTJoin did."""

    indexed: Counter[str] = field(default_factory=Counter)  # tuples sent, by `stream by attribute`
    sent_on: Counter[int] = field(default_factory=Counter)  # partial results, by the level they go to
    made: Counter[int] = field(default_factory=Counter)  # results of operators, by level
    answers: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)


class _CountedDhtJoin(DhtJoin):
    """Counts what operators find, before any of it is sent: NULL goes nowhere."""

    made: Counter[int]

    def _pass_on(self, node: Node, operator: Operator, results: Sequence[Partial]) -> Iterator[Action]:
        self.made[level_of(operator)] += len(results)
        return super()._pass_on(node, operator, results)


def level_of(operator: Operator) -> int:
    """How many operators lie one behind the other, up to this one."""
    return 1 + max((level_of(slot.operator) for slot in operator.slots if slot.operator), default=0)


def run_dhtjoin(batches: Sequence[MicroBatch], names: Iterable[str] = QUERIES) -> DhtJoinCounts:
    """The workload by DHTJoin, every query known everywhere before the first tuple."""
    counts = DhtJoinCounts()

    def note(delivery: Delivery) -> None:
        message = delivery.message
        if isinstance(message, IndexTuple):
            stream, column = message.lane.split(":")[0].split(".")
            counts.indexed[f"{stream} by {column}"] += 1
        elif isinstance(message, IndexPartial):
            # All chains are joined from one end, so a result of n tuples goes to the n-th level.
            counts.sent_on[len(message.items[0].members)] += len(message.items)

    ring = StableRing.of(NODES)
    counters = Counters(ring.capacity)
    protocol = _CountedDhtJoin(ring, counters)
    protocol.made = counts.made
    overlay = Overlay(ring, protocol, counters=counters, watch=note)
    run = DhtJoinNetwork(overlay, protocol, random.Random(0))
    for name, query in bind(lab_streams(), names).items():
        run.submit_at(QueryArrival(0, 3, name, query), STATISTICS)
    for stream, tuple_ in arrivals(batches):
        run.insert_at(TupleArrival(tuple_.ts, NAMES.index(stream), stream, tuple_))
    overlay.run()
    counts.answers = dict(run.answers)
    return counts


@dataclass
class RJoinCounts:
    """What RJoin did."""

    at_value_level: int = 0  # tuples sent, once for each attribute with a value
    at_attribute_level: int = 0
    rewritten: Counter[tuple[str, int]] = field(default_factory=Counter)  # by query and tuples they hold
    answers: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)


def run_rjoin(batches: Sequence[MicroBatch]) -> RJoinCounts:
    """The workload by RJoin, rewriting in the order of each WHERE clause."""
    counts = RJoinCounts()
    named: dict[int, str] = {}

    def note(delivery: Delivery) -> None:
        message = delivery.message
        if isinstance(message, NewTuple):
            counts.at_value_level += message.at_value_level
            counts.at_attribute_level += not message.at_value_level
        elif type(message) is Eval:
            counts.rewritten.update((named[query.query.number], _held(query)) for query in message.queries)

    network = RJoinNetwork(StableRing.of(NODES), Settings(strategy="first"), watch=note)
    streams = {stream.name: stream for stream in lab_streams()}
    for name, query in bind(lab_streams()).items():
        named[network.submit(query)] = name
    for stream, tuple_ in arrivals(batches):
        network.publish(streams[stream], tuple_.values, at_us=tuple_.ts)
    network.run()
    counts.answers = {name: network.answers.received(number) for number, name in named.items()}
    return counts


def _held(query: Rewriting) -> int:
    """How many tuples a rewritten query has met."""
    return 0 if query.parent is None else 1 + _held(query.parent)
