"""A tree of joins laid out for the kernel: its conditions read columns of inputs, which Spark computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.kernel import POSITION, InputLayout, JoinLayout
from watersmeet.kernel.layout import key_column
from watersmeet.kernel.outer.tree_layout import BlockLayout, NodeLayout, OuterLayout, TreeLayout
from watersmeet.query import Expr, JoinKind, Query
from watersmeet.query.arrow_types import arrow_type
from watersmeet.query.join_tree import Block, Tree, meeting_class, nullable_aliases, visible_aliases
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
    meeting: int | None  # the class of the graph by which tuples meet; None: all go to one bucket


def lay_out_tree(query: Query) -> LaidOutTree:
    """The layout of a query with a tree of joins; a QueryError if the kernel cannot evaluate a condition."""
    return _LayOut(query).laid_out()


@dataclass
class _LayOut:
    query: Query
    computed: dict[str, dict[str, ComputedColumn]] = field(default_factory=dict)
    needed: dict[str, dict[str, None]] = field(default_factory=dict)  # columns by alias, in order

    def laid_out(self) -> LaidOutTree:
        query, tree = self.query, self.query.tree
        assert tree is not None
        for alias in visible_aliases(tree):
            self._need(alias, *query.answer_columns(alias))
        self._conditions(tree)
        root = self._part(tree)
        assert isinstance(root, NodeLayout)
        answers = [f"{alias}.{c}" for alias in visible_aliases(tree) for c in query.answer_columns(alias)]
        meeting = self.meeting
        inputs = tuple(self._sent(item.alias) for item in query.inputs)
        return LaidOutTree(
            JoinLayout(inputs, query.joins_delayed),
            OuterLayout(root, tuple(answers), self._types()),
            self.computed,
            meeting,
        )

    @property
    def meeting(self) -> int | None:
        assert self.query.tree is not None
        found = meeting_class(self.query.graph, self.query.tree)
        return None if found is None else self.query.graph.classes.index(found)

    def _need(self, alias: str, *columns: str) -> None:
        self.needed.setdefault(alias, {}).update(dict.fromkeys(columns))

    def _conditions(self, tree: Tree) -> None:
        """Finds all columns first: what an input holds is the same wherever it is laid out."""
        self._part(tree)

    def _part(self, tree: Tree) -> TreeLayout:
        if isinstance(tree, Block):
            return self._block(tree)
        left, right = self._part(tree.left), self._part(tree.right)
        nullable = nullable_aliases(tree.left) | nullable_aliases(tree.right)
        read = OnConditions(self.query, self._column_for, nullable)
        keys = tuple((read.key(e.left, e.type), read.key(e.right, e.type)) for e in tree.equalities)
        condition = read.read(tree.residual)
        return NodeLayout(tree.kind, left, right, keys, condition)

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
            window = self.query.input(alias).window
            positions = (POSITION,) if window.counts_rows else ()
            columns = tuple(dict.fromkeys((*self.needed.get(alias, {}), *positions)))
            inputs.append(InputLayout(alias, window, tuple(keys), columns))
        return BlockLayout(tuple(inputs), condition)

    def _column_for(self, alias: str, expr: Expr, type_: str | None) -> str:
        """The column that holds an expression over one input, as a type; a new one where there is none."""
        name = self._bare(expr, type_) or self._meeting_key(alias, expr, type_)
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

    def _meeting_key(self, alias: str, expr: Expr, type_: str | None) -> str | None:
        """The key by which the tuples of an input travel, if that is what is asked for."""
        if self.meeting is None:
            return None
        cls = self.query.graph.classes[self.meeting]
        attribute = cls.of(alias)
        is_it = attribute is not None and attribute.expr == expr and cls.type == type_
        return key_column(self.meeting) if is_it else None

    def _sent(self, alias: str) -> InputLayout:
        """How the tuples of an input travel: with the key by which they meet, if there is one."""
        keys: tuple[tuple[int, str], ...] = ()
        if self.meeting is not None:
            cls = self.query.graph.classes[self.meeting]
            attribute = cls.of(alias)
            assert attribute is not None
            bare = self._bare(attribute.expr, cls.type)
            keys = ((self.meeting, bare or key_column(self.meeting)),)
        assert self.query.tree is not None
        window = self.query.input(alias).window
        columns = tuple(self.needed.get(alias, {}))
        return InputLayout(alias, window, keys, columns, keeps_null=alias in _preserved(self.query.tree))

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


def _preserved(tree: Tree) -> frozenset[str]:
    """The inputs of combinations that a node may answer for want of a match."""
    if isinstance(tree, Block):
        return frozenset()
    own = frozenset(tree.left.aliases) if tree.kind.preserves_left else frozenset()
    if tree.kind is JoinKind.FULL:
        own |= frozenset(tree.right.aliases)
    return own | _preserved(tree.left) | _preserved(tree.right)
