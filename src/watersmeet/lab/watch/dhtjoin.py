"""A small DHTJoin run to watch: a type-1 query, whose tuples all meet at the node of one value.

The first tuple comes before any query and stays home. Then the query goes to everyone along the dissemination
tree, tuples go to the node of their value of `b` alone, and the third of equal values brings the answer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from watersmeet.lab.overlay.chord.ring import Ring
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.messages import Answers, Disseminate, Index, IndexPartial, IndexTuple
from watersmeet.lab.overlay.dhtjoin.network import QueryArrival, TupleArrival, start_dhtjoin
from watersmeet.lab.overlay.dhtjoin.operators import Partial, Published, key_text
from watersmeet.lab.overlay.dhtjoin.protocol import DhtJoin
from watersmeet.lab.watch.recording import Holding, Holdings, Recorder, Recording
from watersmeet.oracle.oracle import Tuple
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Column, Stream
from watersmeet.sql import bind_query

NODES = 8
ASKER = 2
COLUMNS = tuple(Column(name, "bigint") for name in "ab")
STREAMS = tuple(Stream(name, COLUMNS) for name in ("X", "Y", "Z"))
SQL = (
    "SELECT X.a AS x, Y.a AS y, Z.a AS z FROM X [RANGE 1 MIN], Y [RANGE 1 MIN], Z [RANGE 1 MIN] "
    "WHERE X.b = Y.b AND Y.b = Z.b"
)
BEFORE = (("X", 0, (1, 7)),)  # stream, node, values of a and b
AFTER = (("X", 0, (2, 7)), ("Y", 5, (3, 7)), ("Z", 6, (4, 9)), ("Z", 3, (5, 7)))


def record_dhtjoin() -> Recording:
    """A tuple too early, the query, and four tuples."""
    recorder = Recorder()
    ring = StableRing.of(NODES)
    network = start_dhtjoin(ring, watch=recorder.note)
    overlay = network.overlay
    recorder.attach(overlay, lambda: dhtjoin_holdings(network.protocol), partial(describe, ring))
    now_us = 0

    def publish(stream: str, node: int, values: tuple[int, int]) -> None:
        nonlocal now_us
        now_us += 1
        recorder.begin(f"node {node} publishes {stream}{values}", node)
        named = dict(zip("ab", values, strict=True))
        network.insert_at(TupleArrival(now_us, node, stream, Tuple(now_us, named)))
        overlay.run()

    for early in BEFORE:
        publish(*early)
    now_us += 1
    recorder.begin(f"node {ASKER} poses {SQL}", ASKER)
    network.submit_at(QueryArrival(now_us, ASKER, "q1", bind_query(SQL, STREAMS)), Statistics())
    overlay.run()
    for arrival in AFTER:
        publish(*arrival)
    return recorder.recording("DHTJoin: a type-1 query, sent to all nodes, answered at one", ring.nodes)


def dhtjoin_holdings(protocol: DhtJoin) -> Holdings:
    """Each node's query table, windows, and messages that wait for their query."""
    kept: dict[int, list[Holding]] = {}
    for number, node in sorted(protocol.nodes.items()):
        here = [Holding("query", f"{qid} in the query table") for qid in node.table.entries]
        here += [
            Holding("tuple", f"{_item(held.item)} under {key_text(held.key)}")
            for window in node.windows.values()
            for held in window.everything()
        ]
        here += [
            Holding("tuple", f"{_indexed(early)}, before its query")
            for waiting in node.waiting.values()
            for early in waiting
        ]
        owned = (entry.qid for entry in node.table.entries.values() if entry.owner == number)
        here += [Holding("answer", f"{row} of {qid}") for qid in owned for row in protocol.answers[qid]]
        if here:
            kept[number] = here
    return kept


def describe(ring: Ring, message: Any) -> str:
    """One of DHTJoin's messages as text."""
    match message:
        case Disseminate():
            return f"{message.entry.qid}, for the nodes before {ring.owner(message.limit)}"
        case IndexTuple() | IndexPartial():
            return _indexed(message)
        case Answers():
            return f"answer {', '.join(map(str, message.rows))} of {message.qid}"
        case _:
            return str(message.kind)


def _indexed(message: Index) -> str:
    return f"{', '.join(map(_item, message.items))} under {key_text(message.key)}"


def _item(item: Published | Partial) -> str:
    if isinstance(item, Partial):
        return " with ".join(map(_tuple, item.members.values()))
    return _tuple(item)


def _tuple(tuple_: Published) -> str:
    return f"{tuple_.stream}({', '.join(map(str, tuple_.values.values()))})"
