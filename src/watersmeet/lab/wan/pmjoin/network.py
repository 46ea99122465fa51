"""PMJoin at work: any plan of plan/sites/pmjoin/pmjoin.py, run on a simulated WAN.

Paper: Zhou, Yan, Yu, Zhou, "PMJoin: Optimizing Distributed Multi-way Stream Joins by Stream Partitioning",
DASFAA 2006, sections 3.2 and 3.3. Every MJoin of a plan becomes an operator at its site. A tuple of a
stream goes to the operator its plan names; a tuple of a PMJoin's input first finds its partition by the
value of the attribute, and goes where that partition's plan says. The results of an operator go on in the
same way; those of the last one are answers, which stay where they are.

Guarantees: the answers are the oracle's, each once, whatever the plan and whatever the delays within the
bound. `traffic` is what crossed each link, nothing estimated; the modelled costs are in the plan.

Readings taken: a tuple travels alone, in a message as large as the plan says such tuples are, without
framing, as the paper counts. The routing cost, CPU time in the paper, is counted in lookups: one for each
tuple that needs its partition.

Where answers are not wanted, the last operators neither keep nor probe anything: their work crosses no
link.

Example (the paper's Example 1, value a): s2's tuple goes from n2 to n1, 1 byte; with s1's it makes a result
of 2 bytes, which goes from n1 to n3 and meets s3's tuples there. s3's tuples go nowhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from watersmeet.lab.simulation import SECOND_US, Simulator
from watersmeet.lab.wan.arrivals import Arrival, Joined
from watersmeet.lab.wan.feed import row_of
from watersmeet.lab.wan.network import Link, Traffic, Wan
from watersmeet.lab.wan.pmjoin.operator import MJoinOperator
from watersmeet.oracle.evaluate import evaluate
from watersmeet.oracle.oracle import Answer
from watersmeet.plan.sites.placement import PlacedJoin, Port, Route, Split, place
from watersmeet.plan.sites.plan_tree import PlanNode
from watersmeet.query import Query

NO_DELAY = Link()


@dataclass(frozen=True, kw_only=True)
class PmjoinRun:
    """The results of a run, and its traffic in the measured time."""

    seconds: float
    traffic: Mapping[tuple[str, str], Traffic]
    lookups: int
    late: int  # what arrived after the delay bound and was refused
    largest_delay_us: int
    answers: tuple[Joined, ...]

    @property
    def bytes_per_s(self) -> float:
        return sum(seen.bytes for seen in self.traffic.values()) / self.seconds


@dataclass(eq=False)
class PlacedOperator:
    """A join of the plan at work; `silent` ones only take in."""

    join: MJoinOperator
    placed: PlacedJoin
    silent: bool


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
        placement = place(query, plan)
        self.operators = [self._operator(placed, bound) for placed in placement.joins]
        self._entries = placement.entries
        self.wan = Wan(self.simulator, placement.sites, links, random.Random(f"wan {seed}"))
        self.lookups = 0
        self._answers: list[Joined] = []
        self._known: dict[tuple[int, object], int] = {}  # the partition of a value, by router

    def _operator(self, placed: PlacedJoin, bound_us: int | None) -> PlacedOperator:
        is_bounded = bound_us is not None and not self._query.joins_delayed
        lag = placed.links_before * bound_us if is_bounded and bound_us is not None else None
        graph = self._query.graph
        classes = [
            frozenset(c for alias in names for c in graph.classes_of(alias)) for names in placed.inputs
        ]
        silent = placed.route is None and not self._keep_answers
        return PlacedOperator(MJoinOperator(placed.site, classes, lag), placed, silent)

    def decides_by(self, input_: int) -> int | None:
        """The attribute class whose value says where an input's tuples go; None where all go the same way."""
        route = self._entries[input_].route
        return route.attribute if isinstance(route, Split) else None

    def crosses(self, input_: int, tuple_: Joined) -> bool:
        """Whether a tuple crosses a link, or may make others do so."""
        return self.is_stored(input_, tuple_) or self._target(input_, tuple_) != self._entries[input_].site

    def is_stored(self, input_: int, tuple_: Joined) -> bool:
        """Whether a tuple goes to an operator that keeps it, so that it may meet later ones."""
        route = self._entries[input_].route
        return route is not None and not self.operators[self._port(route, tuple_).join].silent

    def _target(self, input_: int, tuple_: Joined) -> str:
        entry = self._entries[input_]
        if entry.route is None:
            return entry.site
        return self.operators[self._port(entry.route, tuple_).join].join.site

    def run(
        self, arrivals: Iterable[Arrival], *, measure_from_us: int | None = None, until_us: int | None = None
    ) -> PmjoinRun:
        """Feeds arrivals, in order of time, and counts from an instant up to the last one or `until_us`."""
        start = self.simulator.now_us if measure_from_us is None else measure_from_us
        last, is_counting = start, False
        for arrival in arrivals:
            if arrival.at_us >= start and not is_counting:
                is_counting = True
                self._count_from(start)
            self.simulator.run(arrival.at_us)
            entry = self._entries[arrival.input]
            self._send_on(entry.route, arrival.tuple_, entry.site, entry.tuple_bytes)
            last = arrival.at_us
        end = last + 1 if until_us is None else until_us
        if not is_counting:
            self._count_from(start)
        self.simulator.run(max(end - 1, self.simulator.now_us))
        measured = {way: replace(seen) for way, seen in self.wan.traffic.items()}
        lookups = self.lookups
        self.simulator.run()  # what is on its way still makes answers, but its bytes are of a later time
        return PmjoinRun(
            seconds=max(end - start, 1) / SECOND_US,
            traffic=measured,
            lookups=lookups,
            late=sum(operator.join.late for operator in self.operators),
            largest_delay_us=max((seen.largest_delay_us for seen in measured.values()), default=0),
            answers=tuple(self._answers),
        )

    def _count_from(self, start_us: int) -> None:
        """Runs up to an instant and starts to count there."""
        if start_us > self.simulator.now_us:
            self.simulator.run(start_us - 1)
        self.wan.reset()
        self.lookups = 0

    def _port(self, route: Port | Split, tuple_: Joined) -> Port:
        if isinstance(route, Port):
            return route
        value = tuple_.keys[route.attribute]
        at = (id(route.router), value)
        partition = self._known.get(at)
        if partition is None:
            partition = self._known[at] = route.router.partition_of(value)
        return route.ports[partition]

    def _send_on(self, route: Route, tuple_: Joined, site: str, size_bytes: float) -> None:
        if route is None:
            if self._keep_answers:
                self._answers.append(tuple_)
            return
        port = self._port(route, tuple_)
        self.lookups += isinstance(route, Split)
        target = self.operators[port.join].join.site
        if target == site:
            self._deliver(port, tuple_)
        else:
            self.wan.send(site, target, size_bytes, self._deliver, port, tuple_)

    def _deliver(self, port: Port, tuple_: Joined) -> None:
        operator = self.operators[port.join]
        if operator.silent:
            return
        for found in operator.join.receive(port.input, tuple_, self.simulator.now_us):
            self._send_on(operator.placed.route, found, operator.join.site, operator.placed.result_bytes)

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
