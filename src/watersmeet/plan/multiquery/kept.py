"""The joins that queries of a running dataflow have, read back so that the queries keep their state."""

from __future__ import annotations

from watersmeet.plan.multiquery.tree import Planting, Tree, part_mask
from watersmeet.query.shared_dataflow import SharedDataflow


class KeptTrees:
    """The trees of a dataflow's queries, by number."""

    def __init__(self, dataflow: SharedDataflow | None) -> None:
        self._joins = {join.name: join for join in dataflow.joins} if dataflow else {}
        self._relations = {relation.name: relation for relation in dataflow.relations} if dataflow else {}
        self._ends = {tail.number: tail.join for tail in dataflow.tails} if dataflow else {}

    def has(self, number: int) -> bool:
        return number in self._ends

    def replant(self, number: int, planting: Planting, levels: int) -> Tree | None:
        """The tree that a query has; None for a new query, or where the dataflow has too few levels now."""
        if number not in self._ends:
            return None
        tree = self._read(self._ends[number], planting)
        return tree if tree is not None and tree.level <= levels else None

    def _read(self, name: str, planting: Planting) -> Tree | None:
        slots = planting.slotted.slots
        join = self._joins[name]
        parts: list[int | Tree] = []
        for member in join.members:
            relation = self._relations[member]
            part = (
                self._read(relation.source, planting)
                if relation.slot is None
                else next((n for n, slot in enumerate(slots) if slot == relation.slot), None)
            )
            if part is None:
                return None
            parts.append(part)
        if len(parts) == 1:
            trees = [planting.single()]
        else:
            masks = [part_mask(part) for part in parts]
            trees = [
                planting.join(cls, parts)
                for cls, own in enumerate(planting.slotted.class_masks)
                if all(mask & own for mask in masks)
            ]
        return next((tree for tree in trees if tree.name == name), None)
