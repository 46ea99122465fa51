"""The ways to route a query through the engine; a plan has exactly one of them, with all that it needs.

Shares     one stage; each tuple goes to its cells of a hypercube of buckets, with copies
Pipeline   a stage for each join of a bushy tree; partial results go on by the attribute of the next join
           a tree of outer, semi and anti joins as stages for its parts is one too (`TreePipeline`)
Rewrite    a pipeline of all orders of joins, of which each partial result takes the most selective one
Native     Spark's own binary joins, in FROM order
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from watersmeet.plan.routing.hot_values import HotClassPlan
from watersmeet.plan.routing.shares import Hypercube
from watersmeet.plan.routing.tree_stages import StagedTree
from watersmeet.query.shared_dataflow import SharedDataflow


@dataclass(frozen=True)
class Shares:
    """One stage over the cells of a hypercube; values that are hot by the statistics are spread."""

    name: ClassVar = "shares"

    hypercube: Hypercube
    reason: str
    hot_values: tuple[HotClassPlan, ...] = ()


@dataclass(frozen=True)
class Pipeline:
    """The levels of a dataflow, one after the other."""

    name: ClassVar = "pipeline"

    dataflow: SharedDataflow
    reason: str


@dataclass(frozen=True)
class TreePipeline:
    """The stages of a tree of outer, semi and anti joins, one after the other."""

    name: ClassVar = "pipeline"

    staged: StagedTree
    reason: str


@dataclass(frozen=True)
class Rewrite:
    """A dataflow that has a path for every order of joins; each row takes one of them."""

    name: ClassVar = "rewrite"

    dataflow: SharedDataflow
    reason: str


@dataclass(frozen=True)
class Native:
    """A cascade of Spark's own joins."""

    name: ClassVar = "native"

    reason: str


Routing = Shares | Pipeline | TreePipeline | Rewrite | Native
ROUTINGS: tuple[str, ...] = (Shares.name, Pipeline.name, Rewrite.name, Native.name)
