"""What a tree of joins moves and keeps as a pipeline of stages: its tuples, and the results of each stage.

Where we are coarse: matches come at the rate of an inner join of the same inputs, and a row without a match
counts as if none of its side had one. Results are kept for their lifetime, as the tuples they consist of.
"""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.plan.routing.pipeline_or_shares import Delivery, PricedStages
from watersmeet.plan.routing.tree_stages import StagedTree
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Block, JoinKind, Query, Tree
from watersmeet.query.join_tree import visible_aliases


def price_stages(query: Query, statistics: Statistics, staged: StagedTree) -> PricedStages:
    """The stages of a tree, priced."""
    return PricedStages(staged, tuple(_deliveries(staged, rate_model(query, statistics))))


def stage_name(number: int) -> str:
    """What a stage is called, by its position."""
    return f"stage {number + 1}"


def _deliveries(staged: StagedTree, rates: RateModel) -> Iterator[Delivery]:
    stage_of = staged.stage_of
    for number, stage in enumerate(staged.stages):
        for source in rates.sources:
            if stage_of[source.alias] == number:
                sent, kept = (of * source.tuple_bytes for of in (source.rate_per_s, source.window_tuples))
                yield Delivery(source.alias, stage_name(number), 1, sent, kept)
        for taken in stage.takes:
            tree = staged.stages[taken].tree
            size = rates.tuple_bytes(rates.mask(visible_aliases(tree)))
            per_s, held = _flow(tree, rates)
            name = f"results of {stage_name(taken)}"
            yield Delivery(name, stage_name(number), 1, per_s * size, held * size)


def _flow(tree: Tree, rates: RateModel) -> tuple[float, float]:
    """Combinations of a tree a second, and how many are valid at any one time."""
    mask = rates.mask(visible_aliases(tree))
    matched = rates.rate(mask), rates.window(mask)
    if isinstance(tree, Block) or tree.kind is JoinKind.INNER:
        return matched
    left = _flow(tree.left, rates)
    if tree.kind.hides_right:
        return left
    sides = [left, _flow(tree.right, rates)] if tree.kind is JoinKind.FULL else [left]
    per_s, held = (sum(side[each] for side in sides) for each in (0, 1))
    return max(matched[0], per_s), max(matched[1], held)
