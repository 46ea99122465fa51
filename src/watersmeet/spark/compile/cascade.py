"""Spark's own answer to a multi-way window join: a cascade of binary stream-stream joins.

This is the best form Spark accepts. The plain query with a watermark on every input is refused, because a
join's output would carry two event-time columns into the next; so after each join only the first input keeps
its event time as such, and the others' become plain numbers that later conditions compare. All windows must
be RANGE, or state would never expire. Tuples too far ahead of their batch are left out here too, uncounted.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import ConfigurationError
from watersmeet.query import ANSWER_TIME, Input, Query, RangeWindow
from watersmeet.query.expression import quote_name
from watersmeet.spark.sources.derived.view_rows import view_tuples
from watersmeet.spark.sources.event_time import too_far_ahead


def cascade(query: Query, sources: Mapping[str, DataFrame]) -> DataFrame:
    """The query's answers, by Spark's own joins in FROM order."""
    if query.distinct or query.aggregate or not all(isinstance(i.window, RangeWindow) for i in query.inputs):
        raise ConfigurationError("Spark's own cascade can only run plain joins of RANGE windows")
    joined = _input(query, 0, sources)
    for number in range(1, len(query.inputs)):
        joined = joined.join(_input(query, number, sources), F.expr(_condition(query, number)), "inner")
        joined = _keep_one_event_time(query, number, joined)
    times = [_instant(query, number) for number in range(len(query.inputs))]
    latest = times[0] if len(times) == 1 else f"greatest({', '.join(times)})"
    joined = joined.withColumn(ANSWER_TIME, F.expr(f"timestamp_micros({latest})"))
    for condition in query.residual:
        joined = joined.where(condition.sql)
    return joined.selectExpr(*(f"{out.expr.sql} AS {quote_name(out.name)}" for out in query.select))


def _time(number: int) -> str:
    return f"__time{number}"


def _instant(query: Query, number: int) -> str:
    """The event time of an input as microseconds; of the first it is still a timestamp."""
    return f"unix_micros({_time(number)})" if number == 0 else _time(number)


def _input(query: Query, number: int, sources: Mapping[str, DataFrame]) -> DataFrame:
    """One input as a struct of its columns, its event time and its keys beside it."""
    item = query.inputs[number]
    if len(item.stream.view) > 1:
        raise ConfigurationError(
            f"{item.alias} has the tuples of several streams, each with a watermark of its own, and Spark's "
            "cascade has one: choose another routing"
        )
    source = _tuples(item, sources).alias(item.alias)
    if (ahead := too_far_ahead(item.stream, item.alias)) is not None:
        source = source.where(f"NOT coalesce({ahead}, false)")
    for condition in item.filters:
        source = source.where(condition.sql)
    read = query.columns_read(item.alias)
    fields = ", ".join(f"'{name}', {item.alias}.{quote_name(name)}" for name in read)
    columns = [
        f"named_struct({fields}) AS {item.alias}",
        f"{item.alias}.{item.stream.event_time} AS {_time(number)}",
    ]
    for cls in query.graph.classes_of(item.alias):
        attribute = query.graph.classes[cls].of(item.alias)
        assert attribute is not None
        columns.append(f"{attribute.expr.sql} AS __key{number}_{cls}")
    late = f"{item.stream.lateness_us / 1e6:.6f} seconds"
    return source.selectExpr(*columns).withWatermark(_time(number), late)


def _tuples(item: Input, sources: Mapping[str, DataFrame]) -> DataFrame:
    if not item.stream.view:
        return sources[item.stream.name]
    (branch,) = item.stream.view
    return view_tuples(sources, branch)


def _condition(query: Query, number: int) -> str:
    """Equality of keys with some earlier input, and the windows against every earlier one."""
    item = query.inputs[number]
    earlier = query.inputs[:number]
    parts = []
    for cls in query.graph.classes_of(item.alias):
        known = [n for n, other in enumerate(earlier) if cls in query.graph.classes_of(other.alias)]
        if known:
            parts.append(f"__key{known[0]}_{cls} = __key{number}_{cls}")
    if not parts:
        raise ConfigurationError(f"{item.alias} shares no key with the inputs before it: reorder FROM")
    new = _time(number)
    for before, other in enumerate(earlier):
        own, theirs = item.window.duration_us or 0, other.window.duration_us or 0
        if before == 0:
            parts.append(f"{new} >= {_time(0)} - INTERVAL '{own / 1e6:.6f}' SECOND")
            parts.append(f"{new} <= {_time(0)} + INTERVAL '{theirs / 1e6:.6f}' SECOND")
        else:
            parts.append(f"unix_micros({new}) - {_time(before)} BETWEEN -{own} AND {theirs}")
    return " AND ".join(parts)


def _keep_one_event_time(query: Query, number: int, joined: DataFrame) -> DataFrame:
    """The newly joined input's event time as a plain number."""
    others = [F.col(name) for name in joined.columns if name != _time(number)]
    return joined.select(*others, F.expr(f"unix_micros({_time(number)})").alias(_time(number)))
