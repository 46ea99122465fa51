"""What cannot go together with outer, semi and anti joins, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.query import Input, JoinKind, JoinNode
from watersmeet.query.join_tree import has_end, nodes
from watersmeet.sql.syntax.parse import Select, find_word

_CALLED = {
    JoinKind.LEFT: "an outer join",
    JoinKind.FULL: "a FULL JOIN",
    JoinKind.SEMI: "a semi join",
    JoinKind.ANTI: "an anti join",
}


def refuse_late_answers(select: Select, tree: JoinNode, inputs: Sequence[Input], what: str) -> None:
    """Refuses DISTINCT and aggregates where an answer, or its end, may be known as late as it likes.

    They need the answers in the order of their times, and a row without a match leaves at its end.
    """
    windows = {item.alias: item.window for item in inputs}
    counting = tuple(item.alias for item in inputs if item.window.counts_rows)
    for node in nodes(tree):
        endless = [] if node.kind is JoinKind.INNER or has_end(node.left, windows) else [*node.left.aliases]
        late = [alias for alias in (*counting, *endless) if alias in node.aliases]
        if late and node.kind in _CALLED:
            item = next(each for each in inputs if each.alias == late[0])
            raise select.source.refuse(
                f"{what} over {_CALLED[node.kind]} needs to know when {item.alias} leaves its window at the "
                "latest, to have the answers in the order of their times",
                find_word(select.source, select.span, "FROM"),
                f"Give it a window of time: {item.stream.name} [RANGE 10 MINUTES] AS {item.alias}.",
            )
    if counting:
        raise select.source.refuse(
            f"{what} over windows that count rows does not go with outer, semi and anti joins",
            find_word(select.source, select.span, "FROM"),
            f"Give {counting[0]} a window of time, such as [RANGE 10 MINUTES].",
        )


def refuse_endless(select: Select, tree: JoinNode, inputs: Sequence[Input]) -> None:
    """Refuses a join that keeps tuples for want of a match where these never leave their windows."""
    windows = {item.alias: item.window for item in inputs}
    for node in nodes(tree):
        kept = [node.left] if node.kind.preserves_left else []
        kept += [node.right] if node.kind is JoinKind.FULL else []
        for side in kept:
            if has_end(side, windows):
                continue
            endless = [item for item in inputs if item.alias in side.aliases and not item.window.is_bounded]
            names = ", ".join(item.alias for item in endless)
            raise select.source.refuse(
                f"{_CALLED[node.kind]} would wait for ever for a match of {names}, for want of a window",
                find_word(select.source, select.span, "FROM"),
                f"Say for how long: {endless[0].stream.name} [RANGE 10 MINUTES] AS {endless[0].alias}, or "
                "write ... AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 MINUTES in ON.",
            )
