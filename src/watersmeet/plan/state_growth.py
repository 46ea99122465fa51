"""Queries whose state grows for as long as they run, and what to write instead."""

from __future__ import annotations

from watersmeet.query import Input, Query


def describe_growth(query: Query) -> tuple[str, ...]:
    """What of a query's state grows for ever, a line each; nothing where it is bounded."""
    unbounded = [item for item in query.inputs if not item.window.is_bounded]
    if len(query.inputs) > 1 and unbounded:
        names = ", ".join(item.alias for item in unbounded)
        return (
            f"state that grows for ever: every tuple of {names} is kept. {_instead(query, unbounded[0])}",
        )
    if query.distinct and unbounded:
        return (f"state that grows for ever: every value is remembered. {_instead(query, unbounded[0])}",)
    return ()


def _instead(query: Query, item: Input) -> str:
    window = f"Write a window, {item.stream.name} [RANGE 10 MINUTES]"
    time, other = item.stream.event_time, next((one for one in query.inputs if one is not item), None)
    if query.distinct or query.aggregate or time is None or other is None or other.stream.event_time is None:
        return f"{window}"
    condition = f"{item.alias}.{time} >= {other.alias}.{other.stream.event_time} - INTERVAL 10 MINUTES"
    return f"{window}, or a condition such as {condition}"
