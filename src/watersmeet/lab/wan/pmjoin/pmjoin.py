"""PMJoin at work: any plan of plan/sites/pmjoin/pmjoin.py, run on a simulated WAN.

Paper: Zhou, Yan, Yu, Zhou, "PMJoin: Optimizing Distributed Multi-way Stream Joins by Stream Partitioning",
DASFAA 2006, sections 3.2 and 3.3. Every MJoin of a plan becomes an operator at its site. A tuple of a
stream goes to the operator its plan names; a tuple of a PMJoin's input first finds its partition by the
value of the attribute, and goes where that partition's plan says. What an operator finds goes on in the
same way; what the last one finds are answers, which stay where they are.

Guarantees: the answers are the oracle's, each once, whatever the plan and whatever the delays within the
bound. `traffic` is what crossed each link, nothing estimated; the modelled costs are in the plan.

Readings taken: a tuple travels alone, in a message as large as the plan says such tuples are, without
framing, as the paper counts. The routing cost, CPU time in the paper, is counted in steps: a lookup for
each tuple that needs its partition, and a hand-over for each tuple given to an operator, local or far.

Where answers are not wanted, the last operators neither keep nor probe anything: their work crosses no
link.

Example (the paper's Example 1, value a): s2's tuple goes from n2 to n1, 1 byte; with s1's it makes a result
of 2 bytes, which goes from n1 to n3 and meets s3's tuples there. s3's tuples go nowhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation.simulator import Simulator
from watersmeet.lab.wan.network import SECOND_US, Link, Traffic, Wan
from watersmeet.lab.wan.pmjoin.operator import MJoinOperator
from watersmeet.lab.wan.semijoin.oneway.items import row_of
from watersmeet.lab.wan.site_tuples import Arrival, Joined
from watersmeet.oracle.evaluate import evaluate
from watersmeet.oracle.oracle import Answer
from watersmeet.plan.sites.plan_tree import MJoin, PlanNode, PMJoin, StreamLeaf
from watersmeet.plan.sites.value_router import ValueRouter
from watersmeet.query import Query

NO_DELAY = Link()


@dataclass(eq=False)
class _Port:
    """One input of an operator."""

    operator: _Placed
    input: int


@dataclass(eq=False)
class _Split:
    """A choice among ports by the value of an attribute class."""

    attribute: int
    router: ValueRouter
    ports: list[_Port]
    known: dict[object, _Port] = field(default_factory=dict)


_Route = _Port | _Split | None


@dataclass(eq=False)
class _Placed:
    """An operator, where its results go, and how large they are; `silent` ones only take in."""

    join: MJoinOperator
    route: _Route
    result_bytes: float
    silent: bool


@dataclass(frozen=True)
class _Entry:
    """Where a source stream's tuples are, and where they go."""

    site: str
    tuple_bytes: float
    route: _Route


@dataclass(frozen=True)
class PmjoinRun:
    """What a run did in its measured time."""

    seconds: float
    traffic: Mapping[tuple[str, str], Traffic]
    bytes_by_second: tuple[float, ...]
    lookups: int
    hand_overs: int
    late: int  # what arrived after the delay bound and was refused
    largest_delay_us: int
    answers: tuple[Joined, ...]

    @property
    def bytes_per_s(self) -> float:
        return sum(seen.bytes for seen in self.traffic.values()) / self.seconds

    @property
    def messages_per_s(self) -> float:
        return sum(seen.messages for seen in self.traffic.values()) / self.seconds

    @property
    def routing_per_s(self) -> float:
        """Lookups and hand-overs a second."""
        return (self.lookups + self.hand_overs) / self.seconds


class _Meter:
    """Bytes of a WAN, second by second from an instant on."""

    def __init__(self, wan: Wan, start_us: int) -> None:
        self.by_second: list[float] = []
        self.next_us = start_us
        self.is_running = False
        self._wan = wan
        self._seen = 0.0

    def start(self) -> None:
        self.is_running = True
        self.next_us += SECOND_US

    def read(self) -> None:
        total = self._wan.total_bytes
        self.by_second.append(total - self._seen)
        self._seen = total
        self.next_us += SECOND_US


class PmjoinNetwork:
    """A plan's operators at their sites, joined by a WAN."""

    def __init__(
        self,
        query: Query,
        plan: PlanNode,
        links: Link | Mapping[tuple[str, str], Link] = NO_DELAY,
        *,
        delay_bound_us: int | None = None,
        keep_answers: bool = True,
        seed: int = 0,
        start_us: int = 0,
    ) -> None:
        """Without a bound, links of endless bandwidth give it, and with others nothing is ever forgotten."""
        self.simulator = Simulator(start_us)
        self._query = query
        self._keep_answers = keep_answers
        bound = delay_bound_us if delay_bound_us is not None else longest_delay_us(links)
        compiled = _Compiler(query, bound, keep_answers)
        compiled.place(plan, None)
        self.operators = compiled.operators
        self._entries = [compiled.entries[alias] for alias in query.graph.aliases]
        sites = [*(entry.site for entry in self._entries), *(placed.join.site for placed in self.operators)]
        self.wan = Wan(self.simulator, sites, links, random.Random(f"wan {seed}"))
        self.lookups = 0
        self.hand_overs = 0
        self._answers: list[Joined] = []

    def decides_by(self, input_: int) -> int | None:
        """The attribute class whose value says where an input's tuples go; None where all go the same way."""
        route = self._entries[input_].route
        return route.attribute if isinstance(route, _Split) else None

    def crosses(self, input_: int, tuple_: Joined) -> bool:
        """Whether a tuple crosses a link, or may make others do so."""
        return self.is_stored(input_, tuple_) or self._target(input_, tuple_) != self._entries[input_].site

    def is_stored(self, input_: int, tuple_: Joined) -> bool:
        """Whether a tuple goes to an operator that keeps it, so that it may meet later ones."""
        route = self._entries[input_].route
        return route is not None and not self._port(route, tuple_).operator.silent

    def _target(self, input_: int, tuple_: Joined) -> str:
        entry = self._entries[input_]
        return entry.site if entry.route is None else self._port(entry.route, tuple_).operator.join.site

    def run(
        self, arrivals: Iterable[Arrival], *, measure_from_us: int | None = None, until_us: int | None = None
    ) -> PmjoinRun:
        """Feeds arrivals, in order of time, and counts from an instant up to the last one or `until_us`."""
        start = self.simulator.now_us if measure_from_us is None else measure_from_us
        meter, last = _Meter(self.wan, start), start
        for arrival in arrivals:
            if arrival.at_us >= meter.next_us:
                self._measure(meter, arrival.at_us)
            self.simulator.run(arrival.at_us)
            entry = self._entries[arrival.input]
            self._send_on(entry.route, arrival.tuple_, entry.site, entry.tuple_bytes)
            last = arrival.at_us
        end = last + 1 if until_us is None else until_us
        self._measure(meter, end)
        self.simulator.run(max(end - 1, self.simulator.now_us))
        measured = {way: replace(seen) for way, seen in self.wan.traffic.items()}
        lookups, hand_overs = self.lookups, self.hand_overs
        self.simulator.run()  # what is on its way still makes answers, but its bytes are of a later time
        return PmjoinRun(
            max(end - start, 1) / SECOND_US,
            measured,
            tuple(meter.by_second),
            lookups,
            hand_overs,
            sum(placed.join.late for placed in self.operators),
            max((seen.largest_delay_us for seen in measured.values()), default=0),
            tuple(self._answers),
        )

    def _measure(self, meter: _Meter, at_us: int) -> None:
        """Reads the meter at every whole second of the measured time before an instant."""
        while meter.next_us <= at_us:
            if meter.next_us > self.simulator.now_us:
                self.simulator.run(meter.next_us - 1)
            if meter.is_running:
                meter.read()
            else:
                self.wan.reset()
                self.lookups = self.hand_overs = 0
                meter.start()

    def _port(self, route: _Port | _Split, tuple_: Joined) -> _Port:
        if isinstance(route, _Port):
            return route
        value = tuple_.keys[route.attribute]
        port = route.known.get(value)
        if port is None:
            port = route.known[value] = route.ports[route.router.partition_of(value)]
        return port

    def _send_on(self, route: _Route, tuple_: Joined, site: str, size_bytes: float) -> None:
        if route is None:
            if self._keep_answers:
                self._answers.append(tuple_)
            return
        port = self._port(route, tuple_)
        self.lookups += isinstance(route, _Split)
        target = port.operator.join.site
        if target == site:
            self._deliver(port, tuple_)
        else:
            self.wan.send(site, target, size_bytes, self._deliver, port, tuple_)

    def _deliver(self, port: _Port, tuple_: Joined) -> None:
        self.hand_overs += 1
        placed = port.operator
        if placed.silent:
            return
        for found in placed.join.receive(port.input, tuple_, self.simulator.now_us):
            self._send_on(placed.route, found, placed.join.site, placed.result_bytes)

    def answers(self, found: Sequence[Joined]) -> list[Answer]:
        """Combinations in FROM order, without those that a residual condition refuses."""
        answers = []
        for one in found:
            members = [tuple_ for _, tuple_ in sorted(one.members, key=lambda member: member[0])]
            rows = {
                item.alias: row_of(item, tuple_)
                for item, tuple_ in zip(self._query.inputs, members, strict=True)
            }
            if all(evaluate(condition, rows, one.t) is True for condition in self._query.residual):
                answers.append(Answer(one.t, one.end, tuple(members)))
        return answers


def longest_delay_us(links: Link | Mapping[tuple[str, str], Link]) -> int | None:
    """The delay no message exceeds, where bandwidth is endless; else a queue may grow and there is none."""
    every = [links] if isinstance(links, Link) else list(links.values())
    if any(link.bytes_per_s is not None for link in every):
        return None
    return max((link.latency_us + link.jitter_us for link in every), default=0)


class _Compiler:
    """Makes operators of a plan's nodes, and finds where each stream goes first."""

    def __init__(self, query: Query, bound_us: int | None, keep_answers: bool) -> None:
        self.query = query
        self.operators: list[_Placed] = []
        self.entries: dict[str, _Entry] = {}
        self._bound_us = None if query.joins_delayed else bound_us
        self._keep_answers = keep_answers
        self._inputs: dict[str, StreamLeaf | MJoin] = {}  # a PMJoin's inputs, by the name partitions use

    def place(self, node: PlanNode, route: _Route) -> None:
        """A node of the plan proper, whose results go along a route."""
        if isinstance(node, PMJoin):
            self._place_partitions(node, route)
        elif isinstance(node, StreamLeaf):
            self.entries[node.name] = _Entry(node.site, node.tuple_bytes, route)
        else:
            placed = self._operator(node, route)
            for n, child in enumerate(node.inputs):
                self.place(child, _Port(placed, n))

    def _place_partitions(self, node: PMJoin, route: _Route) -> None:
        if node.router is None:
            raise ConfigurationError(f"the plan does not say how {node.attribute} is partitioned")
        ports: dict[str, list[_Port]] = {child.name: [] for child in node.inputs}
        self._inputs.update({child.name: child for child in node.inputs})
        for part in node.partitions:
            self._place_partition(part.plan, route, ports)
        names = [cls.pretty() for cls in self.query.graph.classes]
        attribute = names.index(node.attribute)
        for child in node.inputs:
            self.place(child, _Split(attribute, node.router, ports[child.name]))

    def _place_partition(self, node: PlanNode, route: _Route, ports: dict[str, list[_Port]]) -> None:
        """One partition's plan; its leaves are inputs of the PMJoin, which find their ports by value."""
        if isinstance(node, StreamLeaf):
            assert isinstance(route, _Port)
            ports[node.name].append(route)
        elif isinstance(node, MJoin):
            placed = self._operator(node, route)
            for n, child in enumerate(node.inputs):
                self._place_partition(child, _Port(placed, n), ports)

    def _operator(self, node: MJoin, route: _Route) -> _Placed:
        lag = None if self._bound_us is None else self._links_before(node) * self._bound_us
        classes = [frozenset(self._classes(child)) for child in node.inputs]
        silent = route is None and not self._keep_answers
        placed = _Placed(MJoinOperator(node.site, classes, lag), route, node.tuple_bytes, silent)
        self.operators.append(placed)
        return placed

    def _classes(self, node: PlanNode) -> Iterable[int]:
        for name in node.streams:
            inner = self._inputs.get(name)
            for alias in inner.streams if inner else (name,):
                yield from self.query.graph.classes_of(alias)

    def _links_before(self, node: PlanNode) -> int:
        """The most links that anything crosses on its way into a node, one after another."""
        if isinstance(node, StreamLeaf):
            inner = self._inputs.get(node.name)
            return self._links_before(inner) if isinstance(inner, MJoin) else 0
        if isinstance(node, PMJoin):
            return max(self._links_before(plan) for plan in self._pieces(node))
        return max(
            self._links_before(piece) + (piece.site != node.site)
            for child in node.inputs
            for piece in self._pieces(child)
        )

    def _pieces(self, node: PlanNode) -> Sequence[StreamLeaf | MJoin]:
        """What a node's results come from: a PMJoin's partitions, whose leaves stand for its inputs."""
        if not isinstance(node, PMJoin):
            return [node]
        self._inputs.update({child.name: child for child in node.inputs})
        return [part.plan for part in node.partitions]
