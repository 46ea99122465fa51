"""How new rows of a relation find the results of every join they take part in.

A *path* leads from one member of a join, the head, to all others: whose index is probed by which columns, one
after the other. All members are equal on the columns they are routed by; other equalities join the probe
where both of their columns are at hand. Probes compare parts of hashes, complete results are compared by
value. Paths of one head that begin alike are walked once for all of their joins: they form a tree.

    joins {a, b}, {a, b, c}, {a, d}    from a: b (first join complete) then c (second), and d (third)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from watersmeet.kernel.state.slice import Classes
from watersmeet.query.shared_dataflow import Join, Relation

ColumnOf = tuple[str, str]  # a member, and one of its columns as its source names it


@dataclass(frozen=True)
class SharedProbe:
    """One step: a member's rows whose keys of these classes equal those of rows that are bound."""

    member: str
    classes: Classes
    wanted: tuple[tuple[str, int], ...]  # member and class of the equal, for each


@dataclass(frozen=True)
class Path:
    """From a head to all members of a join."""

    join: Join
    probes: tuple[SharedProbe, ...]
    equal: tuple[tuple[ColumnOf, ColumnOf], ...]  # what is compared by value in complete results


@dataclass
class Node:
    """Where paths meet: what is probed next, and which joins are complete by then."""

    probe: SharedProbe | None = None
    complete: list[Path] = field(default_factory=list)
    children: dict[SharedProbe, Node] = field(default_factory=dict)
    carry: set[tuple[str, int]] = field(default_factory=set)  # hashes that some later probe wants

    @property
    def depth(self) -> int:
        """How many probes follow each other at most."""
        return max((1 + child.depth for child in self.children.values()), default=0)


class Members:
    """Where the qualified columns of a join are found."""

    def __init__(self, join: Join, relations: Mapping[str, Relation]) -> None:
        self.join = join
        self.relations = {name: relations[name] for name in join.members}
        self._columns: dict[str, ColumnOf] = {}
        for name, relation in self.relations.items():
            for column in (*relation.keys, *relation.columns):
                self._columns.setdefault(relation.qualified(column), (name, column))
        self.pairs = [(self.column_of(left), self.column_of(right)) for left, right in join.equalities]
        self._class_of = _equality_classes(self.pairs)

    def column_of(self, qualified: str) -> ColumnOf:
        if qualified not in self._columns:
            raise ValueError(f"no member of {self.join.name} has {qualified}")
        return self._columns[qualified]

    def find(self, qualified: str) -> ColumnOf | None:
        return self._columns.get(qualified)

    def path(self, head: str, order: Sequence[str]) -> Path:
        """The path from a head through the others in this order."""
        bound, probes = [head], []
        for member in order:
            probes.append(self._probe(head, bound, member))
            bound.append(member)
        return Path(self.join, tuple(probes), tuple(self.pairs))

    def _probe(self, head: str, bound: Sequence[str], member: str) -> SharedProbe:
        """By the route, and by every other class of equal columns that both sides have as keys."""
        by = {0: (head, 0)}
        used = {self._class_of.get((member, self.relations[member].route))}
        for own, column in enumerate(self.relations[member].keys):
            cls = self._class_of.get((member, column))
            if own == 0 or cls is None or cls in used:
                continue
            for other in bound:
                keys = self.relations[other].keys
                known = next(
                    (n for n, key in enumerate(keys) if self._class_of.get((other, key)) == cls), None
                )
                if known is not None:
                    by[own] = (other, known)
                    used.add(cls)
                    break
        return SharedProbe(member, tuple(by), tuple(by.values()))


def _equality_classes(pairs: Sequence[tuple[ColumnOf, ColumnOf]]) -> dict[ColumnOf, int]:
    """A number for each column that is compared, the same for those that are equal in every result."""
    class_of: dict[ColumnOf, int] = {}
    for number, (left, right) in enumerate(pairs):
        first, second = class_of.setdefault(left, number), class_of.setdefault(right, number)
        if first != second:
            class_of = {one: first if cls == second else cls for one, cls in class_of.items()}
    return class_of


def tree_of(paths: Sequence[Path]) -> Node:
    """The paths of one head as a tree."""
    root = Node()
    for path in paths:
        node = root
        for number, probe in enumerate(path.probes):
            child = node.children.get(probe)
            if child is None:
                child = node.children[probe] = Node(probe)
            child.carry.update(wanted for later in path.probes[number + 1 :] for wanted in later.wanted)
            node = child
        node.complete.append(path)
    return root
