"""A PMJoin plan as operators at sites: which operator each tuple goes to, and how anything it finds goes on.

PMJoin, DASFAA 2006, section 3.3. Every MJoin of a plan is an operator at its site. A PMJoin node is a choice
among the operators of its partitions, by the value of its attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from watersmeet.errors import ConfigurationError
from watersmeet.lab.wan.pmjoin.operator import MJoinOperator
from watersmeet.plan.sites.plan_tree import MJoin, PlanNode, PMJoin, StreamLeaf
from watersmeet.plan.sites.value_router import ValueRouter
from watersmeet.query import Query


@dataclass(eq=False)
class Port:
    """One input of an operator."""

    operator: PlacedOperator
    input: int


@dataclass(eq=False)
class Split:
    """A choice among ports by the value of an attribute class."""

    attribute: int
    router: ValueRouter
    ports: list[Port]
    known: dict[object, Port] = field(default_factory=dict)


Route = Port | Split | None


@dataclass(eq=False)
class PlacedOperator:
    """An operator, where its results go, and how large they are; `silent` ones only take in."""

    join: MJoinOperator
    route: Route
    result_bytes: float
    silent: bool


@dataclass(frozen=True)
class Entry:
    """Where a source stream's tuples are, and where they go."""

    site: str
    tuple_bytes: float
    route: Route


class Placement:
    """Makes operators of a plan's nodes, and finds where each stream goes first."""

    def __init__(self, query: Query, bound_us: int | None, keep_answers: bool) -> None:
        self.query = query
        self.operators: list[PlacedOperator] = []
        self.entries: dict[str, Entry] = {}
        self._bound_us = None if query.joins_delayed else bound_us
        self._keep_answers = keep_answers
        self._inputs: dict[str, StreamLeaf | MJoin] = {}  # a PMJoin's inputs, by the name partitions use

    def place(self, node: PlanNode, route: Route) -> None:
        """A node of the plan proper, whose results go along a route."""
        if isinstance(node, PMJoin):
            self._place_partitions(node, route)
        elif isinstance(node, StreamLeaf):
            self.entries[node.name] = Entry(node.site, node.tuple_bytes, route)
        else:
            placed = self._operator(node, route)
            for n, child in enumerate(node.inputs):
                self.place(child, Port(placed, n))

    def _place_partitions(self, node: PMJoin, route: Route) -> None:
        if node.router is None:
            raise ConfigurationError(f"the plan does not say how {node.attribute} is partitioned")
        ports: dict[str, list[Port]] = {child.name: [] for child in node.inputs}
        self._inputs.update({child.name: child for child in node.inputs})
        for part in node.partitions:
            self._place_partition(part.plan, route, ports)
        names = [cls.pretty() for cls in self.query.graph.classes]
        attribute = names.index(node.attribute)
        for child in node.inputs:
            self.place(child, Split(attribute, node.router, ports[child.name]))

    def _place_partition(self, node: PlanNode, route: Route, ports: dict[str, list[Port]]) -> None:
        """One partition's plan; its leaves are inputs of the PMJoin, which find their ports by value."""
        if isinstance(node, StreamLeaf):
            assert isinstance(route, Port)
            ports[node.name].append(route)
        elif isinstance(node, MJoin):
            placed = self._operator(node, route)
            for n, child in enumerate(node.inputs):
                self._place_partition(child, Port(placed, n), ports)

    def _operator(self, node: MJoin, route: Route) -> PlacedOperator:
        lag = None if self._bound_us is None else self._links_before(node) * self._bound_us
        classes = [frozenset(self._classes(child)) for child in node.inputs]
        silent = route is None and not self._keep_answers
        placed = PlacedOperator(MJoinOperator(node.site, classes, lag), route, node.tuple_bytes, silent)
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
        """The plans that make a node's results: a PMJoin's partitions, whose leaves stand for its inputs."""
        if not isinstance(node, PMJoin):
            return [node]
        self._inputs.update({child.name: child for child in node.inputs})
        return [part.plan for part in node.partitions]
