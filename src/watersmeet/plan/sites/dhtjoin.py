"""DHTJoin plans: which joins happen at which key of the ring, and what must be sent on between them.

After Palma, Akbarinia, Pacitti and Valduriez, DHTJoin (extended version), section 3.3. A tuple is indexed
under the value of one join attribute, so tuples with that value meet at one node, which joins them with an
MJoin. Type-1 queries end there. Type-2 queries are pipelines over a bushy tree: a partial result is indexed
again under the next attribute, and each such message is the price of the order chosen. The paper takes the
tree as given by a rate-based optimizer; this is one.

Guarantee: among all bushy trees whose joins share an attribute class, the tree returned sends the fewest
partial results a second from one attribute to another, found by dynamic programming over connected sets
(up to `EXHAUSTIVE_LIMIT` inputs; above, the pair with the slowest result is joined again and again).
Neighbouring joins on the same class are one MJoin with several inputs, as nothing is sent between them.
The paper counts messages, so partial results count as tuples; the engine's pipelines count their bytes.
Base tuples are indexed once each, whatever the tree, so they do not count. A cyclic query checks the
remaining equalities where the last of their inputs arrives.

Example: X.b = Y.b, Y.c = Z.c. If X and Y join to 2 tuples/s and Y and Z to 50, the plan is (X, Y) at the
key b, its result sent to the key c to meet Z.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Literal

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.plan_tree import LinkLoad, MJoin, StreamLeaf, links
from watersmeet.plan.sites.semijoin.plan import Search
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import JoinGraph, Query

EXHAUSTIVE_LIMIT = 10

Counted = Literal["tuples", "bytes"]
Price = Callable[[int], float]  # what sending on the results of a set (a bit mask) costs a second


@dataclass(frozen=True)
class DhtJoinPlan:
    """A tree of MJoins, the site of each being the attribute its inputs are indexed under."""

    root: MJoin
    cost: float  # partial results sent from one attribute to another
    search: Search
    unit: str = "tuples/s"

    def links(self) -> tuple[LinkLoad, ...]:
        """What is indexed under which attribute: base tuples from their sites, partial results in between."""
        return links(self.root)

    def pretty(self) -> str:
        head = f"dhtjoin, {self.search} search: {self.cost:.6g} {self.unit} of partial results"
        return f"{head}\n{self.root.pretty()}"

    def to_json(self) -> dict[str, Any]:
        return {"operator": "dhtjoin", "search": self.search, "tree": self.root.to_json()}


@dataclass(frozen=True)
class JoinTree:
    """A join of a set of inputs (a bit mask) under one class; the inputs of its MJoin, and what was sent."""

    mask: int
    cls: int
    inputs: tuple[int | JoinTree, ...]  # a base input by its index, or the tree of a partial result
    cost: float


def plan_dhtjoin(query: Query, statistics: Statistics, *, search: Search | None = None) -> DhtJoinPlan:
    """The DHTJoin plan of a query under statistics; by default exhaustive where that is quick."""
    return optimize_dhtjoin(query.graph, rate_model(query, statistics), search=search)


def optimize_dhtjoin(
    graph: JoinGraph, rates: RateModel, *, search: Search | None = None, counted: Counted = "tuples"
) -> DhtJoinPlan:
    """The plan of the bushy tree that sends the fewest partial results, counted in tuples or in bytes."""
    tree, chosen = find_join_tree(graph, rates, search=search, counted=counted)
    return DhtJoinPlan(_node(tree, graph, rates), tree.cost, chosen, f"{counted}/s")


def find_join_tree(
    graph: JoinGraph, rates: RateModel, *, search: Search | None = None, counted: Counted = "tuples"
) -> tuple[JoinTree, Search]:
    """The bushy tree that sends the fewest partial results, and how it was searched for."""
    count = len(graph.aliases)
    if count < 2:
        raise ConfigurationError("a join plan needs at least two inputs")
    if not graph.is_connected:
        parts = "; ".join(", ".join(part) for part in graph.components())
        raise ConfigurationError(f"a join plan needs a connected join graph, not separate parts: {parts}")
    if search == "exhaustive" and count > EXHAUSTIVE_LIMIT:
        raise ConfigurationError(
            f"the exhaustive DHTJoin search takes at most {EXHAUSTIVE_LIMIT} inputs, not {count}:"
            " use the greedy search"
        )
    chosen: Search = search or ("exhaustive" if count <= EXHAUSTIVE_LIMIT else "greedy")
    price = rates.rate if counted == "tuples" else rates.bytes_per_s
    tree = _search_exhaustively(rates, price) if chosen == "exhaustive" else _grow_greedily(rates, price)
    return tree, chosen


def _search_exhaustively(rates: RateModel, price: Price) -> JoinTree:
    """Dynamic programming: the cheapest tree of every connected set under every class that can top it."""
    best: dict[int, dict[int, JoinTree]] = {}
    arrivals = {1 << n: _Arrival(0.0, {}) for n in range(len(rates.sources))}
    classes: dict[int, frozenset[int]] = {}
    for mask in range(1, rates.everything + 1):
        classes[mask] = frozenset(n for n, attribute in enumerate(rates.attributes) if attribute.mask & mask)
        if mask in arrivals:
            continue
        halves: dict[int, tuple[float, int, int]] = {}
        for left, right in _splits(mask, arrivals):
            one, two = arrivals[left], arrivals[right]
            for cls in classes[left] & classes[right]:
                cost = one.under(cls) + two.under(cls)
                if cls not in halves or (cost, left) < halves[cls][:2]:
                    halves[cls] = (cost, left, right)
        if halves:
            best[mask] = {cls: _join(price, best, cls, *halves[cls][1:]) for cls in sorted(halves)}
            costs = {cls: tree.cost for cls, tree in best[mask].items()}
            arrivals[mask] = _Arrival(min(costs.values()) + price(mask), costs)
    return min(best[rates.everything].values(), key=lambda tree: tree.cost)


@dataclass(frozen=True)
class _Arrival:
    """What it costs to have a set's results under a class: sent there, or joined there in the first place."""

    sent: float
    joined: dict[int, float]

    def under(self, cls: int) -> float:
        return min(self.sent, self.joined.get(cls, self.sent))


def _splits(mask: int, known: Container[int]) -> list[tuple[int, int]]:
    """Each way to halve a set into two sets that can stand alone, once."""
    lowest = mask & -mask
    found = []
    part = (mask - 1) & mask
    while part:
        other = mask ^ part
        if part & lowest and part in known and other in known:
            found.append((part, other))
        part = (part - 1) & mask
    return found


def _shared(rates: RateModel, left: int, right: int) -> list[int]:
    return [
        n for n, attribute in enumerate(rates.attributes) if attribute.mask & left and attribute.mask & right
    ]


def _join(price: Price, best: dict[int, dict[int, JoinTree]], cls: int, left: int, right: int) -> JoinTree:
    """The cheapest join of two sets under a class: each half is there already, or its results are sent."""
    inputs: list[int | JoinTree] = []
    cost = 0.0
    for half in (left, right):
        if half & (half - 1) == 0:
            inputs.append(half.bit_length() - 1)
            continue
        sent = min(best[half].values(), key=lambda tree: tree.cost)
        here = best[half].get(cls)
        if here is not None and here.cost <= sent.cost + price(half):
            inputs += here.inputs
            cost += here.cost
        else:
            inputs.append(sent)
            cost += sent.cost + price(half)
    return JoinTree(left | right, cls, tuple(inputs), cost)


def _grow_greedily(rates: RateModel, price: Price) -> JoinTree:
    """Join the two sets with the cheapest result until one is left, each time under the cheapest class."""
    best: dict[int, dict[int, JoinTree]] = {}
    parts = [1 << n for n in range(len(rates.sources))]
    while len(parts) > 1:
        pairs = [
            (price(left | right), left, right)
            for n, left in enumerate(parts)
            for right in parts[n + 1 :]
            if _shared(rates, left, right)
        ]
        _, left, right = min(pairs)
        best[left | right] = {
            cls: _join(price, best, cls, left, right) for cls in _shared(rates, left, right)
        }
        parts = [part for part in parts if part not in (left, right)] + [left | right]
    return min(best[rates.everything].values(), key=lambda tree: tree.cost)


def _node(tree: JoinTree, graph: JoinGraph, rates: RateModel) -> MJoin:
    """A tree as plan nodes, inputs in FROM order."""

    def first(child: int | JoinTree) -> int:
        mask = 1 << child if isinstance(child, int) else child.mask
        return mask & -mask

    children: list[StreamLeaf | MJoin] = []
    for child in sorted(tree.inputs, key=first):
        if isinstance(child, int):
            source = rates.sources[child]
            children.append(StreamLeaf(source.alias, source.site, source.rate_per_s, source.tuple_bytes))
        else:
            children.append(_node(child, graph, rates))
    site = f"h({graph.classes[tree.cls].pretty()})"
    return MJoin(tuple(children), site, rates.rate(tree.mask), rates.tuple_bytes(tree.mask))
