"""A tree of joins laid out for the kernel: its conditions read columns of inputs, which Spark computes.

Tuples travel with the key by which they meet. In a pipeline each stage has a key and a part of the tree, and
what is joined in an earlier stage it receives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from watersmeet.kernel import POSITION, InputLayout, JoinLayout
from watersmeet.kernel.layout import columns_of_order, key_column
from watersmeet.kernel.outer.tree_layout import (
    BlockLayout,
    NodeLayout,
    OuterLayout,
    ReceivedLayout,
    TreeLayout,
    received_columns,
)
from watersmeet.plan.routing.tree_stages import StagedTree
from watersmeet.query import AttributeClass, Expr, Input, JoinKind, Query
from watersmeet.query.arrow_types import arrow_type
from watersmeet.query.join_tree import Block, Tree, meeting_class, nodes, nullable_aliases, visible_aliases
from watersmeet.query.split_blocks import single_out
from watersmeet.spark.compile.on_conditions import OnConditions

COMPUTED = "__on"  # the names of columns that conditions ask for begin so


@dataclass(frozen=True)
class ComputedColumn:
    """A column that Spark computes of each tuple of an input, for the conditions of a tree."""

    sql: str
    type: str | None


@dataclass(frozen=True)
class LaidOutTree:
    """How tuples travel, how the kernel joins them, and what is computed of them before."""

    layout: JoinLayout
    tree: OuterLayout
    computed: Mapping[str, Mapping[str, ComputedColumn]]  # by alias, by name


@dataclass(frozen=True)
class SentResults:
    """Where the results of a stage go, by which of their columns, and whether those without a value count."""

    stage: int
    column: str
    keeps_null: bool


@dataclass(frozen=True)
class LaidOutStages:
    """The same for a pipeline: the part of each stage, and where its results go, save for the last one's."""

    layout: JoinLayout
    stages: tuple[OuterLayout, ...]
    sent: tuple[SentResults, ...]
    computed: Mapping[str, Mapping[str, ComputedColumn]]


def lay_out_tree(query: Query) -> LaidOutTree:
    """The layout of a query with a tree of joins; a QueryError if the kernel cannot evaluate a condition."""
    assert query.tree is not None
    meeting = meeting_class(query.graph, query.tree)
    number = 0 if meeting is None else query.graph.classes.index(meeting)
    keys = {} if meeting is None else dict.fromkeys(meeting.aliases, (number, meeting))
    tree = single_out(query.tree, [item.alias for item in query.inputs if item.window.partition])
    work = _LayOut(query, tree, keys)
    root = work.part(tree)
    return LaidOutTree(work.sent(), work.tree_of(root, work.answers), work.computed)


def lay_out_stages(query: Query, staged: StagedTree) -> LaidOutStages:
    """The layout of a query whose tree is a pipeline; a key's number is that of its stage."""
    keys = {alias: (number, staged.stages[number].key) for alias, number in staged.stage_of.items()}
    work = _LayOut(query, staged.tree, keys, {each.tree: n for n, each in enumerate(staged.stages)})
    sent = tuple(work.sent_results(number, staged) for number in range(len(staged.stages) - 1))
    roots = [work.part(stage.tree) for stage in staged.stages]
    needed, trees = {len(roots) - 1: work.answers}, []
    for number, root in reversed(list(enumerate(roots))):
        tree = work.tree_of(root, needed[number])
        needed |= received_columns(tree)
        trees.append(tree)
    return LaidOutStages(work.sent(), tuple(reversed(trees)), sent, work.computed)


@dataclass
class _LayOut:
    query: Query
    tree: Tree
    keys: Mapping[str, tuple[int, AttributeClass]]  # by alias, with its number: by what the tuples travel
    received: Mapping[Tree, int] = field(default_factory=dict)  # the parts of stages, by number
    computed: dict[str, dict[str, ComputedColumn]] = field(default_factory=dict)
    needed: dict[str, dict[str, None]] = field(default_factory=dict)  # columns by alias, in order

    def __post_init__(self) -> None:
        for alias in visible_aliases(self.tree):
            self._need(alias, *self.query.answer_columns(alias))
        self.part(self.tree)  # finds all columns: what an input holds is the same wherever it is laid out

    @property
    def answers(self) -> tuple[str, ...]:
        """The columns of the query's answers."""
        aliases = visible_aliases(self.tree)
        return tuple(f"{alias}.{c}" for alias in aliases for c in self.query.answer_columns(alias))

    def sent(self) -> JoinLayout:
        """How the tuples of all inputs travel."""
        inputs = tuple(self._sent(item.alias) for item in self.query.inputs)
        return JoinLayout(inputs, self.query.joins_delayed)

    def tree_of(self, root: BlockLayout | NodeLayout, columns: tuple[str, ...]) -> OuterLayout:
        """A part with the columns that its answers have."""
        return OuterLayout(root, columns, self._types())

    def sent_results(self, number: int, staged: StagedTree) -> SentResults:
        """Where the results of a stage go, and by what."""
        tree, to = staged.stages[number].tree, staged.goes_to[number]
        key = staged.stages[to].key
        attribute = next(each for each in key.attributes if each.alias in tree.aliases)
        column = self._column_for(attribute.alias, attribute.expr, key.type)
        above = next(each for each in nodes(staged.tree) if tree in (each.left, each.right))
        is_preserved = above.kind.preserves_left if above.left == tree else above.kind is JoinKind.FULL
        return SentResults(to, column, is_preserved)

    def _need(self, alias: str, *columns: str) -> None:
        self.needed.setdefault(alias, {}).update(dict.fromkeys(columns))

    def part(self, tree: Tree) -> BlockLayout | NodeLayout:
        """A part of the tree; what stages below it join, it receives."""
        if isinstance(tree, Block):
            return self._block(tree)
        left, right = self._below(tree.left), self._below(tree.right)
        nullable = nullable_aliases(tree.left) | nullable_aliases(tree.right)
        read = OnConditions(self.query, self._column_for, nullable)
        keys = tuple((read.key(e.left, e.type), read.key(e.right, e.type)) for e in tree.equalities)
        condition = read.read(tree.residual)
        return NodeLayout(tree.kind, left, right, keys, condition)

    def _below(self, tree: Tree) -> TreeLayout:
        part, number = self.part(tree), self.received.get(tree)
        return part if number is None else ReceivedLayout(number, part)

    def _block(self, block: Block) -> BlockLayout:
        condition = OnConditions(self.query, self._column_for).read(block.residual)
        inputs = []
        for alias in block.aliases:
            keys = []
            for cls in block.graph.classes_of(alias):
                attribute = block.graph.classes[cls].of(alias)
                assert attribute is not None
                name = self._column_for(alias, attribute.expr, block.graph.classes[cls].type)
                keys.append((cls, name.removeprefix(f"{alias}.")))
            item = self.query.input(alias)
            positions = (POSITION,) if item.window.numbers_rows else ()
            columns = tuple(dict.fromkeys((*self.needed.get(alias, {}), *positions)))
            layout = InputLayout(alias, item.window, tuple(keys), columns)
            inputs.append(replace(_counted(layout, item), follows=bool(item.window.partition)))
        return BlockLayout(tuple(inputs), condition)

    def _column_for(self, alias: str, expr: Expr, type_: str | None) -> str:
        """The column that holds an expression over one input, as a type; a new one where there is none."""
        name = self._bare(expr, type_) or self._travelling_key(alias, expr, type_)
        if name is None:
            # What is inferred is as wide as it may get: length() is a bigint here, and an int in Spark.
            is_exact = expr.is_column or type_ in ("string", "boolean")
            cast = type_ is not None and not (type_ == expr.type and is_exact)
            column = ComputedColumn(f"CAST({expr.sql} AS {type_})" if cast else expr.sql, type_ or expr.type)
            known = self.computed.setdefault(alias, {})
            name = next((own for own, other in known.items() if other == column), f"{COMPUTED}{len(known)}")
            known[name] = column
        self._need(alias, name)
        return f"{alias}.{name}"

    def _bare(self, expr: Expr, type_: str | None) -> str | None:
        """The column of the stream that an expression is, if it is of the type."""
        if not expr.is_column:
            return None
        declared = self.query.input(expr.aliases[0]).stream.column(expr.columns[0].column)
        if declared is None or type_ not in (declared.type, None):
            return None
        return declared.name

    def _travelling_key(self, alias: str, expr: Expr, type_: str | None) -> str | None:
        """The key by which the tuples of an input travel, if that is what is asked for."""
        if alias not in self.keys:
            return None
        number, cls = self.keys[alias]
        attribute = cls.of(alias)
        is_it = attribute is not None and attribute.expr == expr and cls.type == type_
        return key_column(number) if is_it else None

    def _sent(self, alias: str) -> InputLayout:
        """How the tuples of an input travel: with the key by which they meet, if there is one."""
        keys: tuple[tuple[int, str], ...] = ()
        if alias in self.keys:
            number, cls = self.keys[alias]
            attribute = cls.of(alias)
            assert attribute is not None
            keys = ((number, self._bare(attribute.expr, cls.type) or key_column(number)),)
        item, columns = self.query.input(alias), tuple(self.needed.get(alias, {}))
        keeps_null = alias in _preserved(self.tree)
        return _counted(InputLayout(alias, item.window, keys, columns, keeps_null=keeps_null), item)

    def _types(self) -> dict[str, pa.DataType]:
        """The types of columns that answers may lack, as Arrow has them."""
        found: dict[str, pa.DataType] = {}
        for item in self.query.inputs:
            found[f"{item.alias}.{POSITION}"] = pa.int64()
            for name in self.query.answer_columns(item.alias):
                column = item.stream.column(name)
                if column is not None:
                    found[f"{item.alias}.{name}"] = arrow_type(column.type)
        return found


def _counted(layout: InputLayout, item: Input) -> InputLayout:
    """With the columns by which the rows of each value are counted, under PARTITION BY."""
    if not item.window.partition:
        return layout
    return replace(layout, order_by=columns_of_order(item), keeps=bool(item.filters))


def _preserved(tree: Tree) -> frozenset[str]:
    """The inputs of combinations that a node may answer for want of a match."""
    if isinstance(tree, Block):
        return frozenset()
    own = frozenset(tree.left.aliases) if tree.kind.preserves_left else frozenset()
    if tree.kind is JoinKind.FULL:
        own |= frozenset(tree.right.aliases)
    return own | _preserved(tree.left) | _preserved(tree.right)
