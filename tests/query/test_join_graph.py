"""The join graph: the papers' shapes, connectivity, and how it prints."""

from __future__ import annotations

from itertools import combinations

import pytest

from watersmeet.query import Attribute, AttributeClass, JoinGraph, column_expr


def graph(aliases: str, *classes: str) -> JoinGraph:
    """A graph from the inputs each class joins: graph("abc", "ab", "bc") is a chain."""
    return JoinGraph(
        tuple(aliases),
        tuple(
            AttributeClass(tuple(Attribute(alias, column_expr(alias, f"k{n}")) for alias in members))
            for n, members in enumerate(classes)
        ),
    )


@pytest.mark.parametrize(
    ("found", "shape"),
    [
        (graph("a"), "single stream"),
        (graph("ab", "ab"), "type 1"),
        (graph("abc", "abc"), "type 1"),
        (graph("abc", "abc", "abc"), "type 1"),
        (graph("abc", "ab", "bc"), "type 2"),
        (graph("abcd", "ab", "bc", "cd"), "type 2"),
        (graph("abcd", "ab", "ac", "ad"), "type 2"),
        (graph("abc", "ab", "ab", "bc"), "type 2"),
        (graph("abcd", "abc", "cd"), "type 2"),
        (graph("abc", "abc", "bc"), "type 2"),
        (graph("abc", "ab", "bc", "ac"), "cyclic"),
        (graph("abcd", "ab", "bc", "cd", "ad"), "cyclic"),
        (graph("abcde", "ab", "bc", "cd", "bd", "de"), "cyclic"),
        (graph("abcd", *("".join(pair) for pair in combinations("abcd", 2))), "cyclic"),
    ],
)
def test_shapes_have_the_papers_names(found: JoinGraph, shape: str) -> None:
    assert found.shape == shape


def test_a_class_over_all_inputs_breaks_every_cycle_of_it() -> None:
    """R.a=S.a, S.a=T.a, T.a=R.a is one class, not a triangle."""
    assert graph("abc", "abc", "ab", "bc").shape == "type 2"


def test_parts_that_nothing_connects() -> None:
    parts = graph("abcde", "ac", "de")
    assert parts.components() == (("a", "c"), ("b",), ("d", "e"))
    assert not parts.is_connected
    assert graph("abc", "ac", "bc").is_connected
    assert graph("a").is_connected


def test_who_meets_whom() -> None:
    found = graph("abcd", "ab", "bcd")
    assert found.neighbours("b") == ("a", "c", "d")
    assert found.neighbours("a") == ("b",)
    assert found.classes_of("b") == (0, 1)
    assert found.classes[1].of("c") == Attribute("c", column_expr("c", "k1"))
    assert found.classes[1].of("a") is None


@pytest.mark.parametrize("members", ["a", "aab"])
def test_a_class_joins_two_inputs_or_more_each_once(members: str) -> None:
    with pytest.raises(ValueError, match="a class joins two or more inputs, each once"):
        graph("ab", members)


def test_a_graph_prints_its_shape_and_classes() -> None:
    attributes = tuple(Attribute(alias, column_expr(alias, "dest")) for alias in "ab")
    other = tuple(Attribute(alias, column_expr(alias, "my port")) for alias in "bc")
    found = JoinGraph(("a", "b", "c"), (AttributeClass(attributes, "string"), AttributeClass(other)))
    assert found.pretty() == "type 2: a, b, c\n  a.dest = b.dest  (string)\n  b.`my port` = c.`my port`"
