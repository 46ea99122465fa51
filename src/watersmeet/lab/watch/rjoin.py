"""RJoin's Figure 1 to watch: a four-way join in a small ring, rewritten by one tuple after another.

The query waits at R+A. R's tuple rewrites it, S's tuple rewrites it again; M's tuple finds no query and is
stored; J's tuple rewrites the query a third time, which then finds M's tuple waiting for it and is answered.
"""

from __future__ import annotations

from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.rjoin.network import RJoinNetwork
from watersmeet.lab.overlay.rjoin.protocol import RJoin
from watersmeet.lab.overlay.rjoin.settings import Settings
from watersmeet.lab.watch.recording import Holding, Holdings, Recorder, Recording
from watersmeet.query import Column, Stream
from watersmeet.sql.binding.bind import bind_query

NODES = 12
ASKER = 0
COLUMNS = tuple(Column(name, "bigint") for name in "ABC")
STREAMS = {name: Stream(name, COLUMNS) for name in ("R", "S", "J", "M")}
SQL = "SELECT S.B, M.A FROM R, S, J, M WHERE R.A = S.A AND S.B = J.B AND J.C = M.C"
TUPLES = (("R", (2, 5, 8)), ("S", (2, 6, 3)), ("M", (9, 1, 2)), ("J", (7, 6, 2)))


def record_rjoin() -> Recording:
    """The figure's five events, each with its messages."""
    recorder = Recorder()
    ring = StableRing.of(NODES)
    network = RJoinNetwork(ring, Settings(strategy="first"), seed=1, watch=recorder.note)
    posed: list[int] = []

    def look() -> Holdings:
        kept = rjoin_holdings(network.rjoin, network.now_us)
        for number in posed:
            rows = network.answers.received(number)
            kept.setdefault(ASKER, []).extend(Holding("answer", f"{row} of q{number}") for row in rows)
        return kept

    recorder.attach(network.overlay, look)
    recorder.begin(f"node {ASKER} poses {SQL}", ASKER)
    posed.append(network.submit(bind_query(SQL, STREAMS.values()), node=ASKER))
    network.run()
    for number, (name, values) in enumerate(TUPLES, start=1):
        node = 3 * number % NODES
        recorder.begin(f"node {node} publishes {name}{values}", node)
        network.publish(STREAMS[name], values, node=node, at_us=number)
        network.run()
    return recorder.recording("RJoin, Figure 1: a query rewritten from tuple to tuple", ring.nodes)


def rjoin_holdings(rjoin: RJoin, now_us: int) -> dict[int, list[Holding]]:
    """Queries that wait, tuples stored under their values, and tuples in the ALTT.

    A node empties its ALTT when it next looks there; tuples older than Delta are left out here too.
    """
    kept: dict[int, list[Holding]] = {}
    delta_us = rjoin.settings.altt_us or 0
    for node, state in sorted(rjoin.active.items()):
        here = [
            Holding("query", f"{query.pretty()} under {key}")
            for key, queries in state.waiting.items()
            for query in queries
        ]
        here += [
            Holding("tuple", f"{tuple_.pretty()} under {key}")
            for key, tuples in state.tuples.items()
            for tuple_ in tuples
        ]
        here += [
            Holding("tuple", f"{tuple_.pretty()} under {key}, in the ALTT")
            for key, recent in state.altt.items()
            for arrived_us, tuple_ in recent
            if arrived_us + delta_us >= now_us
        ]
        if here:
            kept[node] = here
    return kept
