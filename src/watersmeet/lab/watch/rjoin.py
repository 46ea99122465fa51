"""RJoin's Figure 1 to be watched: a four-way join rewritten by one tuple after another."""

from __future__ import annotations

from watersmeet.lab.overlay.chord.stable import StableRing
from watersmeet.lab.overlay.rjoin.example import NODES, SQL, STREAMS, TUPLES, figure_1_query
from watersmeet.lab.overlay.rjoin.network import RJoinNetwork
from watersmeet.lab.overlay.rjoin.rjoin import RJoin
from watersmeet.lab.overlay.rjoin.settings import Settings
from watersmeet.lab.watch.recording import Holding, Holdings, Recorder, Recording

ASKER = 0


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
    posed.append(network.submit(figure_1_query(), node=ASKER))
    network.run()
    for place, (name, values) in enumerate(TUPLES, start=1):
        node = 3 * place % NODES
        recorder.begin(f"node {node} publishes {name}{values}", node)
        network.publish(STREAMS[name], values, node=node, at_us=place)
        network.run()
    return recorder.recording("RJoin, Figure 1: a query rewritten from tuple to tuple", ring.nodes)


def rjoin_holdings(rjoin: RJoin, now_us: int) -> dict[int, list[Holding]]:
    """Queries that wait, tuples stored under their values, and tuples in the ALTT.

    A node empties its ALTT when it next looks there; what is older than Delta it will not find, nor do we.
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
