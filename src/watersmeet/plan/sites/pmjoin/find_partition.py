"""Where partitioning may be applied in a plan that joins on different attributes.

Paper: PMJoin, DASFAA 2006, section 3.3, Algorithm 2 FINDPARTITION and the selection heuristic after it.

An MJoin is partitionable on an attribute when all its conditions are equalities on that attribute.
FINDPARTITION walks the unpartitioned plan from the root, marks partitionable joins, and merges children that
are partitionable on the same attribute. `select_partitions` then keeps those with the fastest inputs, so that

1. no PMJoin is the child of another (its inputs must each be at one site), and
2. no PMJoin is the right child of an MJoin (the other inputs must know where to go).

Readings taken:

- Equalities on several attributes that all join every input of the MJoin are one composite attribute; the
  join is partitionable, on the first of them.
- "Right child" refers to the plan before any merge, so that constraint 2 holds even when a parent is
  restored to plain MJoins.
- The listed steps drop the parent of a chosen PMJoin but would let a child be chosen after its parent, which
  constraint 1 forbids; so choosing one drops its children as well.
- "Total input stream rates" are in bytes/s, like all costs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from watersmeet.plan.sites.plan_tree import MJoin, PlanNode
from watersmeet.plan.statistics.rate_model import RateModel


@dataclass(frozen=True, eq=False)
class Candidate:
    """A PMJoin that may replace `operator` and the operators merged into it."""

    operator: MJoin
    attribute: int  # index into the model's attributes
    inputs: tuple[PlanNode, ...]
    merged: tuple[MJoin, ...]

    @property
    def input_bytes_per_s(self) -> float:
        return sum(node.bytes_per_s for node in self.inputs)


def partitionable_on(model: RateModel, inputs: Sequence[PlanNode]) -> int | None:
    """The attribute that all conditions between these inputs are on, if there is just one."""
    masks = [model.mask(node.streams) for node in inputs]
    touched = {
        index: sum(1 for mask in masks if attribute.mask & mask)
        for index, attribute in enumerate(model.attributes)
    }
    joining = [index for index, count in touched.items() if count > 1]
    return joining[0] if joining and all(touched[index] == len(masks) for index in joining) else None


def find_partition(model: RateModel, plan: PlanNode) -> list[Candidate]:
    """Algorithm 2: every PMJoin the plan has room for, parents first."""
    found: list[Candidate] = []
    _find(model, plan, False, found)
    return found


def _find(model: RateModel, node: PlanNode, is_right_child: bool, found: list[Candidate]) -> None:
    if not isinstance(node, MJoin):
        return
    children = _with_side(node)
    attribute = None if is_right_child else partitionable_on(model, node.inputs)
    if attribute is not None:
        merged = []
        index = 0
        while index < len(children):
            child = children[index][0]
            if isinstance(child, MJoin) and partitionable_on(model, child.inputs) == attribute:
                merged.append(child)
                children[index : index + 1] = _with_side(child)
            else:
                index += 1
        found.append(Candidate(node, attribute, tuple(child for child, _ in children), tuple(merged)))
    for child, is_right in children:
        _find(model, child, is_right, found)


def _with_side(node: MJoin) -> list[tuple[PlanNode, bool]]:
    """R of Algorithm 2: the right child is the one at the join's own site."""
    return [(child, child is node.inputs[-1]) for child in node.inputs]


def select_partitions(candidates: Collection[Candidate]) -> list[Candidate]:
    """The selection heuristic: the PMJoins to apply, fastest inputs first."""
    waiting = sorted(candidates, key=lambda candidate: -candidate.input_bytes_per_s)
    chosen = []
    while waiting:
        best = waiting.pop(0)
        chosen.append(best)
        waiting = [other for other in waiting if not _is_child(best, other) and not _is_child(other, best)]
    return chosen


def _is_child(child: Candidate, parent: Candidate) -> bool:
    return any(node is child.operator for node in parent.inputs)
