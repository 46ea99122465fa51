"""RJoin's Figure 1 as a scenario: five events in a small ring, and the transcript of every message.

The query waits at R+A. R's tuple rewrites it, S's tuple rewrites it again; M's tuple finds no query and is
stored; J's tuple rewrites the query a third time, which then finds M's tuple waiting for it and is answered.
"""

from __future__ import annotations

from watersmeet.lab.overlay.chord.stable import StableRing
from watersmeet.lab.overlay.network import Delivery
from watersmeet.lab.overlay.rjoin.network import RJoinNetwork
from watersmeet.lab.overlay.rjoin.settings import Settings
from watersmeet.query import Column, Query, Stream
from watersmeet.sql import bind_query

NODES = 12
COLUMNS = tuple(Column(name, "bigint") for name in "ABC")
STREAMS = {name: Stream(name, COLUMNS) for name in ("R", "S", "J", "M")}
SQL = "SELECT S.B, M.A FROM R, S, J, M WHERE R.A = S.A AND S.B = J.B AND J.C = M.C"
TUPLES = (("R", (2, 5, 8)), ("S", (2, 6, 3)), ("M", (9, 1, 2)), ("J", (7, 6, 2)))


def figure_1_query() -> Query:
    return bind_query(SQL, STREAMS.values())


def figure_1_events() -> list[tuple[str, list[Delivery]]]:
    """Each event with the messages it causes, in order."""
    seen: list[Delivery] = []
    network = RJoinNetwork(StableRing.of(NODES), Settings(strategy="first"), seed=1, watch=seen.append)
    events: list[tuple[str, list[Delivery]]] = []
    number = network.submit(figure_1_query(), node=0)
    network.run()
    events.append((f"node 0 poses {SQL}", seen.copy()))
    for place, (name, values) in enumerate(TUPLES, start=1):
        seen.clear()
        node = 3 * place % NODES
        network.publish(STREAMS[name], values, node=node, at_us=place)
        network.run()
        events.append((f"node {node} publishes {name}{values}", seen.copy()))
    assert network.answers.of(number), "the example ends with an answer"
    return events


def figure_1_transcript() -> str:
    """The example as text: every message with the nodes it passes."""
    lines: list[str] = []
    for place, (title, deliveries) in enumerate(figure_1_events(), start=1):
        lines.append(f"Event {place}: {title}")
        lines += [f"  {describe(delivery)}" for delivery in deliveries]
    return "\n".join(lines) + "\n"


def describe(delivery: Delivery) -> str:
    """One message in a line."""
    return f"{' -> '.join(map(str, delivery.path))}: {delivery.message}"
