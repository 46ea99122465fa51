"""A plan as joins at sites: where each stream's tuples go first, and where each join's results go on.

PMJoin, DASFAA 2006, section 3.3. Every MJoin of a plan is a join at its site. A PMJoin node is a choice among
the joins of its partitions, by the value of its attribute: a *split*. Partitions whose plans have one
structure share their joins, as tuples of different values never meet anyway.

The simulator and the engine both run what is written here, so what one measures is what the other ships.

    partition a: (s2, s1 at n1), s3 at n3     s2 -> join 1, input 0, at n1     join 1 -> join 0, input 0
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.plan_tree import MJoin, PlanNode, PMJoin, StreamLeaf, structure
from watersmeet.plan.sites.value_router import ValueRouter
from watersmeet.query import Query


@dataclass(frozen=True)
class Port:
    """One input of a join."""

    join: int
    input: int

    @property
    def name(self) -> str:
        return f"{self.join}.{self.input}"


@dataclass(frozen=True, eq=False)
class Split:
    """A choice among ports by the value of an attribute class: the port of each partition of the router."""

    attribute: int
    router: ValueRouter
    ports: tuple[Port, ...]


Route = Port | Split | None  # None: these are answers, and stay where they are


@dataclass(frozen=True, kw_only=True)
class PlacedJoin:
    """A join at a site; `inputs` are the aliases that each input consists of."""

    number: int
    site: str
    inputs: tuple[tuple[str, ...], ...]
    route: Route
    result_bytes: float
    links_before: int  # the most links that anything crosses on its way here, one after another

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(alias for names in self.inputs for alias in names)


@dataclass(frozen=True)
class Entry:
    """Where the tuples of an input of the query arrive, and where they go."""

    alias: str
    site: str
    tuple_bytes: float
    route: Route


@dataclass(frozen=True)
class Placement:
    """The joins of a plan, by number, and the entries of the query's inputs, in FROM order."""

    joins: tuple[PlacedJoin, ...]
    entries: tuple[Entry, ...]

    def entry(self, alias: str) -> Entry:
        return next(entry for entry in self.entries if entry.alias == alias)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that have something to do, in order of first mention."""
        every = [*(entry.site for entry in self.entries), *(join.site for join in self.joins)]
        return tuple(dict.fromkeys(every))


def place(query: Query, plan: PlanNode) -> Placement:
    """The joins of a plan at their sites, and the routes between them."""
    placer = _Placer(query)
    placer.place(plan, None)
    entries = tuple(placer.entries[alias] for alias in query.graph.aliases)
    return Placement(tuple(placer.joins), entries)


@dataclass
class _Placer:
    query: Query
    joins: list[PlacedJoin] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    _inputs: dict[str, StreamLeaf | MJoin] = field(
        default_factory=dict
    )  # of PMJoins, as partitions name them

    def place(self, node: PlanNode, route: Route) -> None:
        """A node of the plan proper, whose results go along a route."""
        if isinstance(node, PMJoin):
            self._place_partitions(node, route)
        elif isinstance(node, StreamLeaf):
            self.entries[node.name] = Entry(node.name, node.site, node.tuple_bytes, route)
        else:
            number = self._join(node, route)
            for n, child in enumerate(node.inputs):
                self.place(child, Port(number, n))

    def _place_partitions(self, node: PMJoin, route: Route) -> None:
        if node.router is None:
            raise ConfigurationError(f"the plan does not say how {node.attribute} is partitioned")
        self._inputs.update({child.name: child for child in node.inputs})
        shapes: dict[str, dict[str, Port]] = {}
        ports: dict[str, list[Port]] = {child.name: [] for child in node.inputs}
        for part in node.partitions:
            shape = structure(part.plan)
            if shape not in shapes:
                shapes[shape] = {}
                self._place_partition(part.plan, route, shapes[shape])
            for name, port in shapes[shape].items():
                ports[name].append(port)
        names = [cls.pretty() for cls in self.query.graph.classes]
        attribute = names.index(node.attribute)
        for child in node.inputs:
            self.place(child, Split(attribute, node.router, tuple(ports[child.name])))

    def _place_partition(self, node: PlanNode, route: Route, ports: dict[str, Port]) -> None:
        """One partition's plan; its leaves are inputs of the PMJoin, which find their ports by value."""
        if isinstance(node, StreamLeaf):
            assert isinstance(route, Port)
            ports[node.name] = route
        elif isinstance(node, MJoin):
            number = self._join(node, route)
            for n, child in enumerate(node.inputs):
                self._place_partition(child, Port(number, n), ports)

    def _join(self, node: MJoin, route: Route) -> int:
        number = len(self.joins)
        self.joins.append(
            PlacedJoin(
                number=number,
                site=node.site,
                inputs=tuple(tuple(self._aliases(child)) for child in node.inputs),
                route=route,
                result_bytes=node.tuple_bytes,
                links_before=self._links_before(node),
            )
        )
        return number

    def _aliases(self, node: PlanNode) -> Iterable[str]:
        for name in node.streams:
            inner = self._inputs.get(name)
            yield from self._aliases(inner) if isinstance(inner, MJoin) else (name,)

    def _links_before(self, node: PlanNode) -> int:
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
