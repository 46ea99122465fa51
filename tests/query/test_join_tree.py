"""Trees of joins: what can be missing, what can be seen, and which attributes agree wherever tuples meet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watersmeet.query import (
    Attribute,
    AttributeClass,
    Block,
    Column,
    ColumnRef,
    Equality,
    Expr,
    Input,
    JoinGraph,
    JoinKind,
    JoinNode,
    Output,
    Query,
    Stream,
    Tree,
    column_expr,
    range_us,
)
from watersmeet.query.join_tree import (
    blocks,
    key_graph,
    meeting_class,
    nodes,
    nullable_aliases,
    visible_aliases,
)

COLUMNS = tuple(
    Column(name, kind) for name, kind in [("k", "int"), ("j", "int"), ("v", "int"), ("ts", "timestamp")]
)
LESS = Expr("a.v < b.v", (ColumnRef("a", "v"), ColumnRef("b", "v")), "boolean")


def one(alias: str) -> Block:
    return Block(JoinGraph((alias,)))


def equal(left: str, right: str, type_name: str | None = "int") -> Equality:
    sides = [column_expr(*side.split("."), "int") for side in (left, right)]
    return Equality(sides[0], sides[1], type_name)


def join(kind: JoinKind, left: Tree, right: Tree, *pairs: tuple[str, str]) -> JoinNode:
    return JoinNode(kind, left, right, tuple(equal(*pair) for pair in pairs))


def attribute(name: str) -> Attribute:
    alias, column = name.split(".")
    return Attribute(alias, column_expr(alias, column, "int"))


def block(*names: str) -> Block:
    aliases = tuple(name.split(".")[0] for name in names)
    return Block(JoinGraph(aliases, (AttributeClass(tuple(attribute(name) for name in names), "int"),)))


LEFT_OF_LEFT = join(
    JoinKind.LEFT,
    join(JoinKind.LEFT, one("a"), one("b"), ("a.k", "b.k")),
    one("c"),
    ("b.k", "c.k"),
)


def test_what_left_joins_bring_may_be_missing() -> None:
    assert nullable_aliases(LEFT_OF_LEFT) == {"b", "c"}
    assert nullable_aliases(one("a")) == frozenset()


def test_a_full_join_may_miss_either_side() -> None:
    assert nullable_aliases(join(JoinKind.FULL, LEFT_OF_LEFT, one("d"), ("a.k", "d.k"))) == set("abcd")


def test_semi_and_anti_joins_hide_their_right_side() -> None:
    tree = join(JoinKind.ANTI, LEFT_OF_LEFT, block("d.k", "e.k"), ("a.k", "d.k"))
    assert tree.aliases == ("a", "b", "c", "d", "e")
    assert visible_aliases(tree) == ("a", "b", "c")
    assert nullable_aliases(tree) == {"b", "c"}


def test_nodes_come_after_those_below_them() -> None:
    assert list(nodes(LEFT_OF_LEFT)) == [LEFT_OF_LEFT.left, LEFT_OF_LEFT]
    assert [each.aliases for each in blocks(LEFT_OF_LEFT)] == [("a",), ("b",), ("c",)]


def test_equalities_of_all_nodes_make_one_class() -> None:
    graph = key_graph(("a", "b", "c"), LEFT_OF_LEFT)
    assert [cls.pretty() for cls in graph.classes] == ["a.k = b.k = c.k"]
    assert meeting_class(graph, LEFT_OF_LEFT) == graph.classes[0]


def test_two_attributes_of_one_input_never_share_a_class() -> None:
    """With b or c missing, nothing makes a.k and a.j equal."""
    tree = join(JoinKind.LEFT, LEFT_OF_LEFT.left, one("c"), ("a.j", "c.k"))
    tree = join(JoinKind.LEFT, tree, one("d"), ("b.k", "d.k"), ("c.k", "d.k"))
    graph = key_graph(("a", "b", "c", "d"), tree)
    assert [cls.pretty() for cls in graph.classes] == ["a.j = c.k", "a.k = b.k = d.k"]
    assert meeting_class(graph, tree) is None


def test_a_node_without_the_class_is_not_decided_locally() -> None:
    """a and b are joined by j alone, although c.k is equal to the k of both."""
    tree = join(
        JoinKind.LEFT,
        join(JoinKind.LEFT, one("a"), one("b"), ("a.j", "b.j")),
        one("c"),
        ("a.k", "c.k"),
        ("b.k", "c.k"),
    )
    graph = key_graph(("a", "b", "c"), tree)
    assert [cls.pretty() for cls in graph.classes] == ["a.j = b.j", "a.k = b.k = c.k"]
    assert meeting_class(graph, tree) is None


def test_a_block_is_decided_locally_by_a_class_of_its_own() -> None:
    tree = join(JoinKind.SEMI, block("a.k", "b.k"), one("c"), ("b.k", "c.j"))
    graph = key_graph(("a", "b", "c"), tree)
    assert [cls.pretty() for cls in graph.classes] == ["a.k = b.k = c.j"]
    assert meeting_class(graph, tree) == graph.classes[0]
    apart = replace(tree, left=block("a.j", "b.j"))
    assert meeting_class(key_graph(("a", "b", "c"), apart), apart) is None


@pytest.mark.parametrize(
    ("types", "found"),
    [
        (("int", "int"), ["int"]),
        (("int", "bigint"), ["bigint"]),
        (("int", "string"), ["int"]),
        (("int", None), ["int"]),
    ],
)
def test_a_class_compares_as_all_its_equalities_can(types: tuple[str | None, ...], found: list[str]) -> None:
    def widen(first: str, other: str) -> str | None:
        return None if "string" in (first, other) else "bigint"

    lower = JoinNode(JoinKind.LEFT, one("a"), one("b"), (equal("a.k", "b.k", types[0]),))
    tree = JoinNode(JoinKind.LEFT, lower, one("c"), (equal("b.k", "c.k", types[1]),))
    assert [cls.type for cls in key_graph(("a", "b", "c"), tree, widen).classes] == found


QUERY = Query(
    inputs=tuple(Input(name, Stream(f"s_{name}", COLUMNS, "ts"), range_us(60_000_000)) for name in "abc"),
    graph=key_graph(("a", "b", "c"), LEFT_OF_LEFT),
    select=(Output("v", column_expr("a", "v")),),
    residual=(Expr("c.j IS NULL", (ColumnRef("c", "j"),), "boolean"),),
    tree=replace(LEFT_OF_LEFT, residual=(LESS,)),
)


def test_a_query_prints_its_tree() -> None:
    assert QUERY.pretty().split("\n")[3:] == [
        "left join on b.k = c.k and a.v < b.v",
        "  left join on a.k = b.k",
        "    a",
        "    b",
        "  c",
        "where c.j IS NULL",
        "select a.v",
    ]


def test_what_decides_matches_is_read_and_kept() -> None:
    assert QUERY.payload("a") == ("v",)
    assert QUERY.payload("b") == ("v",)
    assert QUERY.payload("c") == ("j",)
    assert QUERY.columns_read("b") == ("k", "v", "ts")


def test_a_tree_holds_each_input_once() -> None:
    with pytest.raises(ValueError, match="each of the query's inputs once"):
        replace(QUERY, tree=LEFT_OF_LEFT.left)
