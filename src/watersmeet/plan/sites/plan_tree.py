"""Plan trees with sites: which site joins what, and what crosses which link.

As in PMJoin's Figure 3 (section 3.2): a leaf is a source stream, an inner node is an MJoin with two or more
inputs, and the right-most input, printed last, is where the join runs; the other inputs are shipped
there. A PMJoin node (section 3.3) holds one such tree per partition, over the substreams of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet.plan.sites.value_router import ValueRouter


class _Flow:
    """What any node of a plan puts out."""

    rate_per_s: float
    tuple_bytes: float

    @property
    def bytes_per_s(self) -> float:
        return self.rate_per_s * self.tuple_bytes


class _Join(_Flow):
    """A node with inputs, named by the streams below it."""

    inputs: tuple[PlanNode, ...]

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(name for child in self.inputs for name in child.streams)

    @property
    def name(self) -> str:
        return " ⋈ ".join(sorted(self.streams))


@dataclass(frozen=True)
class StreamLeaf(_Flow):
    """A source stream, or the substream of a PMJoin's input, at its site."""

    name: str
    site: str
    rate_per_s: float
    tuple_bytes: float

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.name,)

    def pretty(self) -> str:
        return pretty(self)

    def to_json(self) -> dict[str, Any]:
        return {"operator": "stream", "stream": self.name, **_facts(self)}


@dataclass(frozen=True)
class MJoin(_Join):
    """A join of two or more inputs at one site; the right-most input is there already."""

    inputs: tuple[PlanNode, ...]
    site: str
    rate_per_s: float
    tuple_bytes: float

    def pretty(self) -> str:
        return pretty(self)

    def to_json(self) -> dict[str, Any]:
        return {"operator": "mjoin", **_facts(self), "inputs": [child.to_json() for child in self.inputs]}


@dataclass(frozen=True)
class PartitionPlan:
    """The plan of one group of substreams; its leaves are named as the PMJoin's inputs."""

    name: str
    plan: StreamLeaf | MJoin


@dataclass(frozen=True, kw_only=True)
class PMJoin(_Join):
    """A join on one attribute whose inputs are partitioned by value, each partition with its own plan.

    `router` says where in `partitions` a value's plan is.
    """

    attribute: str
    inputs: tuple[StreamLeaf | MJoin, ...]
    partitions: tuple[PartitionPlan, ...]
    rate_per_s: float
    tuple_bytes: float
    router: ValueRouter | None = field(default=None, compare=False, repr=False)

    @property
    def site(self) -> str:
        """The sites its results appear at, in order, each once."""
        return ", ".join(sorted({part.plan.site for part in self.partitions}))

    def pretty(self) -> str:
        return pretty(self)

    def to_json(self) -> dict[str, Any]:
        parts = [{"partition": part.name, "plan": part.plan.to_json()} for part in self.partitions]
        inputs = [child.to_json() for child in self.inputs]
        return {
            "operator": "pmjoin",
            "attribute": self.attribute,
            **_facts(self),
            "inputs": inputs,
            "partitions": parts,
        }


PlanNode = StreamLeaf | MJoin | PMJoin


@dataclass(frozen=True)
class LinkLoad:
    """What crosses the link from one site to another."""

    source: str
    target: str
    stream: str
    bytes_per_s: float

    def pretty(self) -> str:
        return f"{self.source} -> {self.target}: {self.stream}, {number(self.bytes_per_s)} bytes/s"

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self.source,
            "to": self.target,
            "stream": self.stream,
            "bytes_per_s": self.bytes_per_s,
        }


def links(plan: PlanNode) -> tuple[LinkLoad, ...]:
    """Which stream crosses which link at how many bytes/s, partitions added up, in order of first use."""
    loads: dict[tuple[str, str, str], float] = {}
    for load in _shipments(plan):
        key = (load.source, load.target, load.stream)
        loads[key] = loads.get(key, 0.0) + load.bytes_per_s
    return tuple(LinkLoad(*key, bytes_per_s) for key, bytes_per_s in loads.items())


def cost_bytes_per_s(plan: PlanNode) -> float:
    """The plan's communication: all bytes/s that cross any link. Answers stay where they are found."""
    return sum(load.bytes_per_s for load in _shipments(plan))


def operators(plan: PlanNode) -> Iterator[PlanNode]:
    """The nodes of a plan, parents first; a PMJoin's inputs, but not its partitions' plans."""
    yield plan
    for child in () if isinstance(plan, StreamLeaf) else plan.inputs:
        yield from operators(child)


def _shipments(plan: PlanNode) -> Iterator[LinkLoad]:
    if isinstance(plan, StreamLeaf):
        return
    for child in plan.inputs:
        yield from _shipments(child)
    if isinstance(plan, PMJoin):
        for part in plan.partitions:
            yield from _shipments(part.plan)
        return
    for child in plan.inputs:
        for piece in (part.plan for part in child.partitions) if isinstance(child, PMJoin) else (child,):
            if piece.site != plan.site:
                yield LinkLoad(piece.site, plan.site, child.name, piece.bytes_per_s)


def number(value: float) -> str:
    """A quantity in four digits, large ones in full."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def pretty(plan: PlanNode) -> str:
    """The tree, one node a line, the right input last; what is shipped says where to and how much."""
    return "\n".join(_lines(plan, None))


def _lines(plan: PlanNode, target: str | None) -> list[str]:
    if isinstance(plan, PMJoin):
        return _partition_lines(plan, target)
    name = plan.name if isinstance(plan, StreamLeaf) else "MJoin"
    shipped = f", {number(plan.bytes_per_s)} bytes/s -> {target}" if target not in (None, plan.site) else ""
    lines = [f"{name} at {plan.site}: {number(plan.rate_per_s)} tuples/s{shipped}"]
    if isinstance(plan, MJoin):
        lines += _branches([_lines(child, plan.site) for child in plan.inputs])
    return lines


def _partition_lines(plan: PMJoin, target: str | None) -> list[str]:
    count = len(plan.partitions)
    lines = [f"PMJoin on {plan.attribute}: {number(plan.rate_per_s)} tuples/s, {count} partitions"]
    branches = [[part.name, *_branches([_lines(part.plan, target)])] for part in alike_partitions(plan)]
    inner = [_lines(child, None) for child in plan.inputs if isinstance(child, MJoin)]
    return [*lines, *_branches([*([f"input {line[0]}", *line[1:]] for line in inner), *branches])]


def alike_partitions(plan: PMJoin) -> list[PartitionPlan]:
    """The partitions' plans, those of one structure as one, rates added up; the names are titles."""
    alike: dict[str, list[PartitionPlan]] = {}
    for part in plan.partitions:
        alike.setdefault(structure(part.plan), []).append(part)
    found = []
    for parts in alike.values():
        names = ", ".join(part.name for part in parts[:4]) + (", ..." if len(parts) > 4 else "")
        title = f"partition {names}" if len(parts) == 1 else f"{len(parts)} partitions alike ({names})"
        found.append(PartitionPlan(title, _added([part.plan for part in parts])))
    return found


def _branches(blocks: Sequence[Sequence[str]]) -> list[str]:
    lines = []
    for index, block in enumerate(blocks):
        last = index == len(blocks) - 1
        lines.append(("└─ " if last else "├─ ") + block[0])
        lines += [("   " if last else "│  ") + line for line in block[1:]]
    return lines


def structure(plan: StreamLeaf | MJoin) -> str:
    """What two partitions' plans must share to be taken for one: streams, sites and order."""
    if isinstance(plan, StreamLeaf):
        return f"{plan.name}@{plan.site}"
    return f"({' '.join(structure(child) for child in _plain(plan.inputs))})@{plan.site}"


def _added(plans: Sequence[StreamLeaf | MJoin]) -> StreamLeaf | MJoin:
    """Plans of one structure as one plan, rates added up."""
    first, rate = plans[0], sum(plan.rate_per_s for plan in plans)
    if isinstance(first, StreamLeaf):
        return replace(first, rate_per_s=rate)
    columns = zip(*(_plain(plan.inputs) for plan in plans if isinstance(plan, MJoin)), strict=True)
    return replace(first, rate_per_s=rate, inputs=tuple(_added(column) for column in columns))


def _plain(nodes: Sequence[PlanNode]) -> list[StreamLeaf | MJoin]:
    """The inputs of a join inside a partition, which are never PMJoins."""
    return [node for node in nodes if not isinstance(node, PMJoin)]


def _facts(node: PlanNode) -> dict[str, Any]:
    return {"site": node.site, "rate_per_s": node.rate_per_s, "bytes_per_s": node.bytes_per_s}
