"""The answers of a query as a stream: its columns, and what cannot be one.

    CREATE STREAM j AS SELECT a.k, b.v FROM s1 [RANGE 5 S] AS a, s2 [RANGE 5 S] AS b WHERE a.k = b.k

Its event time is answer_time, a column of its own: the last one, unless the SELECT list has it already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.query import ANSWER_TIME, Column, Expr, Output, Query, Stream
from watersmeet.sql.binding.outputs import Draft
from watersmeet.sql.binding.views.view_types import typed
from watersmeet.sql.syntax.parse import Select, find_word

TIME = Output(ANSWER_TIME, Expr(ANSWER_TIME, (), "timestamp", uses_answer_time=True))


def stream_outputs(
    select: Select, name: str, outputs: Sequence[Output], drafts: Sequence[Draft], *, distinct: bool
) -> tuple[Output, ...]:
    """The SELECT list with types that are certain, and with answer_time."""
    source, found = select.source, []
    for output, draft in zip(outputs, drafts, strict=True):
        is_time = output.expr.sql == ANSWER_TIME and output.expr.uses_answer_time
        if output.name.lower() == ANSWER_TIME and not is_time:
            raise source.refuse(
                f"stream {name} calls {ANSWER_TIME} what is not the time of an answer",
                draft.node,
                f"Give it another name with AS: {ANSWER_TIME} is the event time of the stream.",
            )
        expr = output.expr if is_time else typed(source, f"stream {name}", output, draft.node)
        found.append(replace(output, expr=replace(output.expr, sql=expr.sql, type=expr.type or "timestamp")))
    if any(output.name.lower() == ANSWER_TIME for output in found):
        return tuple(TIME if output.name.lower() == ANSWER_TIME else output for output in found)
    if distinct:
        raise source.refuse(
            f"the values of stream {name} would have no event time",
            find_word(source, select.span, "SELECT"),
            f"Add {ANSWER_TIME} to the SELECT list; or write DISTINCT in the query that reads the stream.",
        )
    return (*found, TIME)


def refuse_aggregate(select: Select, name: str) -> None:
    """Refuses a query whose rows are samples, and no answers."""
    raise select.source.refuse(
        f"stream {name} would be an aggregate, and what it samples at a tick is no answer",
        find_word(select.source, select.span, "SELECT"),
        "Make a stream of the join, and aggregate in the query that reads it.",
    )


def stream_of(name: str, query: Query) -> Stream:
    """The stream that has the answers of a query."""
    columns = tuple(Column(output.name, output.expr.type or "") for output in query.select)
    return Stream(name, columns, ANSWER_TIME, max_ahead_us=None, answers=query)
