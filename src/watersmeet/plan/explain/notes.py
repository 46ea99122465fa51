"""What a reader of a plan should know besides: what was taken by default, which links are too slow."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.plan.sites.plan_tree import LinkLoad, number
from watersmeet.plan.state_growth import describe_growth
from watersmeet.plan.statistics.statistics import (
    DEFAULT_DISTINCT,
    DEFAULT_RATE_PER_S,
    DEFAULT_TUPLE_BYTES,
    Statistics,
    attribute_name,
)
from watersmeet.plan.strategies import Priced
from watersmeet.query import JoinKind, Query, format_duration
from watersmeet.query.join_tree import latest_us, nodes, visible_aliases


def notes_on(query: Query, statistics: Statistics, plan: Priced) -> tuple[str, ...]:
    """The notes for one plan, in the order of the query."""
    if plan.strategy == "dhtjoin":  # its links lead to keys of a ring, wherever these are
        return notes_on_statistics(query, statistics)
    return (*notes_on_statistics(query, statistics), *slow_links(statistics, plan.links))


def notes_on_statistics(query: Query, statistics: Statistics) -> tuple[str, ...]:
    """What was taken by default, whatever the plan."""
    return (
        *_unmeasured_streams(query, statistics),
        *_unmeasured_attributes(query, statistics),
        *_unmeasured_filters(query, statistics),
        *_unbounded(query, statistics),
        *_waiting(query),
    )


def _waiting(query: Query) -> list[str]:
    """What of a tree of joins is known only when the watermark has passed a lifetime, and when that is."""
    windows = {item.alias: item.window for item in query.inputs}
    notes = []
    for node in nodes(query.tree) if query.tree else ():
        if not node.kind.preserves_left:
            continue
        latest = latest_us(node, windows)
        answered = "is answered" if node.kind is JoinKind.ANTI else "is answered with NULLs"
        sides = [node.left, node.right] if node.kind is JoinKind.FULL else [node.left]
        names = " or ".join(", ".join(visible_aliases(side)) for side in sides)
        when = "has left its ROWS window"
        if latest is not None:
            when = f"is {format_duration(latest)} behind the watermark, at the latest"
        notes.append(f"{node.kind.value} join: {names} without a match {answered} when it {when}")
    return notes


def _unmeasured_streams(query: Query, statistics: Statistics) -> list[str]:
    known = {name.lower() for name in statistics.streams}
    missing = [stream.name for stream in query.streams if stream.name.lower() not in known]
    if not missing:
        return []
    taken = f"{number(DEFAULT_RATE_PER_S)} tuples/s of {number(DEFAULT_TUPLE_BYTES)} bytes"
    return [f"no statistics for {', '.join(missing)}: taken as {taken}"]


def _unmeasured_attributes(query: Query, statistics: Statistics) -> list[str]:
    known = {name.lower() for name in statistics.streams}
    missing = []
    for cls in query.graph.classes:
        names = [(query.input(side.alias).stream.name, attribute_name(side)) for side in cls.attributes]
        given = {
            name
            for name in names
            for other in names
            if name is not other and statistics.given_selectivity(*name, *other) is not None
        }
        for stream, column in names:
            measured = {attribute.lower() for attribute in statistics.stream(stream).attributes}
            is_known = column.lower() in measured or (stream, column) in given
            if stream.lower() in known and not is_known:
                missing.append(f"{stream}.{column}")
    if not missing:
        return []
    names_text = ", ".join(dict.fromkeys(missing))
    return [f"values not measured: {names_text} taken as {number(DEFAULT_DISTINCT)} values, evenly spread"]


def _unmeasured_filters(query: Query, statistics: Statistics) -> list[str]:
    texts = [expr.sql for item in query.inputs for expr in item.filters if expr.sql not in statistics.filters]
    return [f"filter not measured, taken to keep everything: {text}" for text in dict.fromkeys(texts)]


def _unbounded(query: Query, statistics: Statistics) -> list[str]:
    aliases = [item.alias for item in query.inputs if not item.window.is_bounded]
    growing = list(describe_growth(query))
    if not aliases or len(query.inputs) == 1:
        return growing
    priced = f"priced as {number(statistics.unbounded_window_s)} s"
    return [f"unbounded window of {', '.join(aliases)}: {priced}", *growing]


def slow_links(statistics: Statistics, loads: Sequence[LinkLoad]) -> list[str]:
    """The links that carry less than they would have to."""
    carried: dict[tuple[str, str], float] = {}
    for load in loads:
        pair = (load.source, load.target)
        carried[pair] = carried.get(pair, 0.0) + load.bytes_per_s
    notes = []
    for (source, target), bytes_per_s in carried.items():
        limit = statistics.network.link(source, target).bytes_per_s
        if bytes_per_s > limit:
            notes.append(
                f"link {source} -> {target} is too slow: the plan sends {number(bytes_per_s)} bytes/s"
                f" over {number(limit)}"
            )
    return notes
