"""The first tuples of a query's sources, as far as a simulation needs them: event time and join values.

Filters and join values are computed by Spark, as when the query runs. Values come as statistics list them:
text, numbers and truth values as they are, anything else as Spark's text for it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector, Input, Query
from watersmeet.query.expression import quote_name
from watersmeet.spark.analyze.analyze import Read, as_compared
from watersmeet.spark.analyze.attribute import listed_as
from watersmeet.spark.session.connectors import refusals_named

SampledRow = tuple[int, tuple[Any, ...] | None]  # event time, and a value for each class of the join graph


def sample_inputs(query: Query, read: Read, rows: int) -> list[list[SampledRow]]:
    """The first rows of each input in order of time; values are None where a filter or a NULL says no."""
    found = []
    for item in query.inputs:
        with refusals_named(f"stream {item.stream.name}", item.stream.source or Connector("none")):
            found.append(_sample(query, item, read, rows))
    return found


def _sample(query: Query, item: Input, read: Read, rows: int) -> list[SampledRow]:
    stream, alias = item.stream, quote_name(item.alias)
    if stream.event_time is None:
        raise ConfigurationError(
            f"stream {stream.name} declares no event_time, so its tuples have no time of their own"
        )
    time = f"{alias}.{quote_name(stream.event_time)}"
    frame = read(stream).limit(rows).selectExpr(f"struct(*) AS {alias}").where(f"{time} IS NOT NULL")
    passes = " AND ".join(f"({expr.sql})" for expr in item.filters) or "true"
    computed = []
    for n, cls in enumerate(query.graph.classes):
        attribute = cls.of(item.alias)
        computed.append(f"{as_compared(attribute, cls.type) if attribute else 'NULL'} AS k{n}")
    keyed = frame.selectExpr(
        f"unix_micros(CAST({time} AS TIMESTAMP)) AS ts", f"({passes}) AS passes", *computed
    )
    types = {field.name: field.dataType for field in keyed.schema.fields}
    names = [f"k{n}" for n in range(len(query.graph.classes))]
    listed = keyed.selectExpr(
        "ts", "passes", *(f"{listed_as(name, types[name])} AS {name}" for name in names)
    )
    needed = query.graph.classes_of(item.alias)
    found: list[SampledRow] = []
    for row in listed.collect():
        values = tuple(float(v) if isinstance(v, Decimal) else v for v in row[2:])
        kept = row["passes"] is True and all(values[cls] is not None for cls in needed)
        found.append((int(row["ts"]), values if kept else None))
    return sorted(found, key=lambda one: one[0])
