"""DHTJoin: queries go to all nodes, so that tuples need only go where some query joins them.

After Palma, Akbarinia, Pacitti and Valduriez, DHTJoin (Euro-Par 2008 and its extended version, whose sections
3 and 4 we follow). A query is disseminated to all nodes and kept in their query tables. A tuple is indexed
under the value of each attribute that some known query joins on, and of no other. At the value's node an
MJoin finds combinations: a type-1 query is done there, a type-2 query sends its partial results on along its
plan (`watersmeet.plan.sites.dhtjoin`), and answers go straight to the node that asked.

Guarantee: from the moment a query is in every table, its answers are the oracle's, each once, whatever the
message delays up to the bound that `Settings` names, as long as no node fails and memory is not limited.
A tuple that enters at a node the query has not reached yet is not indexed for it: the paper's price for
not storing everything. A message about a query that overtakes the query itself waits for it.

Where we differ: local filters are checked before indexing, so a tuple no query can use stays home; operators
and lanes are shared between queries (operators.py); the results of one arrival are routed as one group, as
RJoin does, and results for the same value are one message; the key is the hash of the value, as in section
3.2 of the extended version (Euro-Par puts the stream's name in front, and then tuples of different streams
would not meet).

Example: X.b = Y.b and Y.c = Z.c. x(b=1) and y(b=1, c=2) meet at the node of 1; xy goes to the node of 2 and
meets z(c=2); the answer goes to whoever asked.

The other files: operators (plans as operators), query_table, lane_window (memory), mjoin (probing), alerts
(failures), messages, dissemination (trees and gossip), network (all of it on an overlay).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.actions import Action, Direct, Later, MultiSend
from watersmeet.lab.overlay.counters import Counters
from watersmeet.lab.overlay.dhtjoin.alerts import DetectionPolicy, FailureDetector
from watersmeet.lab.overlay.dhtjoin.dissemination import Links, gossip_choice, local_list, tree_shares
from watersmeet.lab.overlay.dhtjoin.lane_window import Held, LaneWindow, Shedding, check_memory
from watersmeet.lab.overlay.dhtjoin.messages import (
    Alert,
    Answers,
    Disseminate,
    Gossip,
    GossipRound,
    Index,
    IndexPartial,
    IndexTuple,
    Ping,
    Pong,
    Tick,
)
from watersmeet.lab.overlay.dhtjoin.mjoin import MJoin
from watersmeet.lab.overlay.dhtjoin.operators import KeyExpr, Operator, Partial, Published, key_text, value_of
from watersmeet.lab.overlay.dhtjoin.query_table import Outlet, QueryEntry, QueryTable

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Settings:
    """How the nodes behave. `delivery_us` bounds the time a message takes from node to node."""

    delivery_us: int = 0
    memory_tuples: int | None = None  # m(S_i): room for tuples of one lane at one node
    shedding: Shedding = "random"
    gossip_every_us: int | None = None  # complements the tree by periodic gossip
    detection: DetectionPolicy | None = None  # finds failed sources and suspends their consumers

    def __post_init__(self) -> None:
        check_memory(self.memory_tuples, self.shedding)
        if self.delivery_us < 0 or (self.gossip_every_us is not None and self.gossip_every_us <= 0):
            raise ConfigurationError("a delivery bound is zero or more, a gossip period above zero")


@dataclass
class Node:
    """The state of one node."""

    number: int
    _: KW_ONLY
    table: QueryTable = field(default_factory=QueryTable)
    windows: dict[str, LaneWindow] = field(default_factory=dict)
    joins: dict[str, MJoin] = field(default_factory=dict)
    waiting: dict[str, list[Index]] = field(default_factory=dict)  # arrived before their query did
    chosen: dict[str, set[int]] = field(default_factory=dict)  # by query: nodes gossip can leave out
    stopped: set[str] = field(default_factory=set)  # streams whose source here is down
    detector: FailureDetector = field(init=False)
    ticking: bool = False

    def __post_init__(self) -> None:
        self.detector = FailureDetector(self.number)


class DhtJoin:
    """DHTJoin's nodes: messages in, actions out. `links` is each node's own routing table."""

    def __init__(self, links: Links, counters: Counters, settings: Settings | None = None) -> None:
        self.links = links
        self.counters = counters
        self.settings = settings or Settings()
        self.answers: dict[str, list[Row]] = {}
        self.nodes: dict[int, Node] = {}
        self._arrivals = 0
        self._handlers: dict[type, Callable[[Node, Any, int, random.Random], Iterable[Action]]] = {
            Disseminate: self._on_query,
            Gossip: self._on_gossip,
            GossipRound: self._gossip,
            IndexTuple: self._on_index,
            IndexPartial: self._on_index,
            Answers: self._on_answers,
            Ping: self._on_ping,
            Pong: self._on_pong,
            Tick: self._test,
            Alert: self._on_alert,
        }

    def node(self, number: int) -> Node:
        """The state of a node, empty if it is new."""
        found = self.nodes.get(number)
        if found is None:
            found = self.nodes[number] = Node(number)
        return found

    def receive(self, node: int, message: Any, now_us: int, rng: random.Random) -> Iterable[Action]:
        """A node handles a message and returns actions."""
        return self._handlers[type(message)](self.node(node), message, now_us, rng)

    def submit(self, entry: QueryEntry, rng: random.Random, now_us: int) -> Iterable[Action]:
        """The owner of a query takes it in and starts its dissemination."""
        self.answers.setdefault(entry.qid, [])
        root = Disseminate(entry, self.links.id_of(entry.owner), entry.owner)
        return self._on_query(self.node(entry.owner), root, now_us, rng)

    def insert(self, tuple_: Published) -> list[Action]:
        """A stream's source indexes a new tuple by each attribute that some query needs, if any."""
        node = self.node(tuple_.source)
        if tuple_.stream in node.stopped:
            return []
        pairs = []
        for lane, key in node.table.lanes_for(tuple_):
            value = key.value(tuple_)
            if value is not None:
                pairs.append((IndexTuple(lane, value, tuple_, node.number), key_text(value)))
        return [MultiSend(pairs)] if pairs else []

    def _on_query(
        self, node: Node, message: Disseminate, now_us: int, rng: random.Random
    ) -> Iterable[Action]:
        # A node that gossip reached first still covers its arc.
        actions = self._learn(node, message.entry, {message.sender}, now_us, rng)
        fingers = [(finger, self.links.id_of(finger)) for finger in self.links.fingers(node.number)]
        for share in tree_shares(self.links.id_of(node.number), message.limit, fingers, self.links.bits):
            node.chosen[message.entry.qid].add(share.node)
            actions.append(Direct(Disseminate(message.entry, share.limit, node.number), share.node))
        return actions

    def _on_gossip(self, node: Node, message: Gossip, now_us: int, rng: random.Random) -> Iterable[Action]:
        return self._learn(node, message.entry, {message.sender, *message.chosen}, now_us, rng)

    def _learn(
        self, node: Node, entry: QueryEntry, chosen: set[int], now_us: int, rng: random.Random
    ) -> list[Action]:
        """Take a query in, once, and catch up on earlier arrivals; note the nodes gossip can leave out."""
        node.chosen.setdefault(entry.qid, {node.number}).update(chosen)
        if entry.qid in node.table.entries:
            return []
        outlets = node.table.add(entry)
        for slot in entry.root.leaves:
            if slot.lane in node.windows:
                node.windows[slot.lane].prolong(node.table.span_us(slot.lane))
        actions = list(self._catch_up(node, entry, outlets))
        for slot in entry.root.descendants():
            for early in node.waiting.pop(slot.lane, ()):
                actions += self._on_index(node, early, now_us, rng)
        if self.settings.gossip_every_us:
            actions.append(Later(GossipRound(entry.qid), self.settings.gossip_every_us))
        return actions

    def _catch_up(self, node: Node, entry: QueryEntry, outlets: Sequence[Outlet]) -> Iterator[Action]:
        """The results of a new query over tuples that other queries have stored here."""
        for outlet in outlets if node.windows else ():
            join = self._join(node, outlet.operator)
            results = join.catch_up(node.windows, entry.inserted_us)
            if outlet.slot:
                slot = outlet.slot
                yield from self._send_on(node, [(slot.lane, slot.key, result) for result in results])
            else:
                yield from self._answer(entry, results)

    def _gossip(self, node: Node, message: GossipRound, now_us: int, rng: random.Random) -> Iterable[Action]:
        chosen = node.chosen[message.qid]
        target = gossip_choice(local_list(self.links, node.number), chosen, rng)
        if target is None or not self.settings.gossip_every_us:
            return []
        chosen.add(target)
        entry = node.table.entries[message.qid]
        gossip = Gossip(entry, frozenset(chosen), node.number)
        return [Direct(gossip, target), Later(message, self.settings.gossip_every_us)]

    def _on_index(self, node: Node, message: Index, now_us: int, rng: random.Random) -> Iterable[Action]:
        readers = node.table.readers(message.lane)
        if not readers:
            node.waiting.setdefault(message.lane, []).append(message)
            return []
        self.counters.processing[node.number] += 1
        actions: list[Action] = []
        if self.settings.detection:
            actions += node.detector.note_arrival(message, node.table, now_us)
            if not node.ticking:
                node.ticking = True
                actions.append(Later(Tick(), self.settings.detection.every_us))
        horizon = now_us - self.settings.delivery_us * node.table.depth
        for lane in {slot.lane for operator, _ in readers for slot in operator.slots}:
            if lane in node.windows:
                self.counters.keep(node.number, -node.windows[lane].expire(horizon))
        window = self._window(node, message.lane)
        found: dict[str, tuple[Operator, list[Partial]]] = {}
        for item in message.items:
            if window.refuses(message.key):
                continue
            held = self._hold(node, window, message, item)
            for operator, slot in readers:
                start_us = node.table.start_us(operator)
                if start_us is not None:
                    results = self._join(node, operator).arrive(slot, held, node.windows, start_us)
                    found.setdefault(operator.name, (operator, []))[1].extend(results)
            shed = window.make_room(now_us, lambda other: _expected(node, message.lane, other), rng)
            self.counters.keep(node.number, -shed)
        for operator, results in found.values():
            actions += self._pass_on(node, operator, results)
        return actions

    def _hold(self, node: Node, window: LaneWindow, message: Index, item: Published | Partial) -> Held:
        span_us = node.table.span_us(message.lane)
        expires_us = item.end if isinstance(item, Partial) else item.ts + span_us + 1
        self._arrivals += 1
        held = Held(self._arrivals, message.key, item, expires_us)
        window.insert(held)
        self.counters.keep(node.number)
        return held

    def _pass_on(self, node: Node, operator: Operator, results: Sequence[Partial]) -> Iterator[Action]:
        """Send results on under the next attribute, or to the nodes that asked."""
        answered: dict[str, tuple[QueryEntry, list[Partial]]] = {}
        leaving = []
        for result in results:
            leaving += [(lane, key, result) for lane, key in node.table.outlets(operator, result)]
            for entry in node.table.answered(operator, result):
                answered.setdefault(entry.qid, (entry, []))[1].append(result)
        yield from self._send_on(node, leaving)
        for entry, found in answered.values():
            yield from self._answer(entry, found)

    def _send_on(self, node: Node, leaving: Sequence[tuple[str, KeyExpr, Partial]]) -> Iterator[Action]:
        """Index partial results again; those found together for the same value travel together."""
        together: dict[tuple[str, Hashable], list[Partial]] = {}
        for lane, key, result in leaving:
            value = key.value(result.members[key.attribute.alias])
            if value is not None:
                together.setdefault((lane, value), []).append(result)
        if together:
            yield MultiSend(
                [
                    (IndexPartial(lane, value, tuple(results), node.number), key_text(value))
                    for (lane, value), results in together.items()
                ]
            )

    def _answer(self, entry: QueryEntry, results: Sequence[Partial]) -> Iterator[Action]:
        query = entry.query
        rows = tuple(
            tuple(value_of(output.expr, result.members, result.t) for output in query.select)
            for result in results
            if all(value_of(expr, result.members, result.t) is True for expr in query.residual)
        )
        if rows:
            yield Direct(Answers(entry.qid, rows), entry.owner)

    def _on_answers(self, node: Node, message: Answers, now_us: int, rng: random.Random) -> Iterable[Action]:
        self.answers[message.qid] += message.rows
        return []

    def _on_ping(self, node: Node, message: Ping, now_us: int, rng: random.Random) -> Iterable[Action]:
        return [] if message.stream in node.stopped else [Direct(Pong(message.stream), message.sender)]

    def _on_pong(self, node: Node, message: Pong, now_us: int, rng: random.Random) -> Iterable[Action]:
        return node.detector.note_alive(message.stream, node.table, now_us)

    def _test(self, node: Node, message: Tick, now_us: int, rng: random.Random) -> Iterable[Action]:
        assert self.settings.detection
        again = Later(message, self.settings.detection.every_us)
        return [*node.detector.test(self.settings.detection, node.table, now_us), again]

    def _on_alert(self, node: Node, message: Alert, now_us: int, rng: random.Random) -> Iterable[Action]:
        return node.detector.handle(message, node.table)

    def _window(self, node: Node, lane: str) -> LaneWindow:
        window = node.windows.get(lane)
        if window is None:
            window = LaneWindow(self.settings.memory_tuples, self.settings.shedding)
            node.windows[lane] = window
        return window

    def _join(self, node: Node, operator: Operator) -> MJoin:
        join = node.joins.get(operator.name)
        if join is None:
            join = node.joins[operator.name] = MJoin(operator)
        return join

    def hand_over(self, node: int, to: int, moves: Callable[[str], bool]) -> int:
        """Move everything under keys for which `moves` holds; a newcomer gets the query table with it."""
        giver, taker = self.node(node), self.node(to)
        if giver is not taker:
            for entry in giver.table.entries.values():
                taker.table.add(entry)
                taker.chosen.setdefault(entry.qid, {to, node})
        moved = 0
        for lane, window in giver.windows.items():
            for held in [held for held in window.everything() if moves(key_text(held.key))]:
                window.remove(held)
                copy = Held(held.seq, held.key, held.item, held.expires_us)
                self._window(taker, lane).insert(copy)
                moved += 1
        for lane, early in list(giver.waiting.items()):
            staying = [message for message in early if not moves(key_text(message.key))]
            taker.waiting.setdefault(lane, []).extend(m for m in early if moves(key_text(m.key)))
            giver.waiting[lane] = staying
        self.counters.keep(node, -moved)
        self.counters.keep(to, moved)
        return moved

    def forget(self, node: int) -> int:
        """A node's state is lost; says how many stored tuples and partial results were."""
        gone = self.nodes.pop(node, None)
        items = sum(len(window) for window in gone.windows.values()) if gone else 0
        self.counters.keep(node, -items)
        return items

    def shed(self) -> Counter[str]:
        """How many arrivals and stored tuples each lane had to drop for want of memory."""
        counts: Counter[str] = Counter()
        for node in self.nodes.values():
            for lane, window in node.windows.items():
                counts[lane] += window.shed
        return counts


def _expected(node: Node, lane: str, held: Held) -> float:
    """How many combinations a held tuple can expect: its value's arrivals on the lanes it joins with."""
    expected = 0.0
    for operator, own_slot in node.table.readers(lane):
        partners = 1.0
        for other, slot in enumerate(operator.slots):
            if other != own_slot:
                window = node.windows.get(slot.lane)
                partners *= window.arrived.get(held.key, 0) if window else 0
        expected += partners
    return expected
