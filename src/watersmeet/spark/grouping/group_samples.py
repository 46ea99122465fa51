"""What an aggregate query asks of Spark: groups of the answers that were sampled at each tick.

All samples of a tick come in one micro-batch. So a query in a shared dataflow groups each batch by itself,
and a streaming aggregation, which a query alone has, waits for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from watersmeet.query import ColumnRef, Query
from watersmeet.query.expression import quote_name, quote_ref
from watersmeet.spark.grouping.distinct_aggregates import without_distinct


@dataclass(frozen=True)
class GroupedTexts:
    """An aggregate over the answers sampled at each tick, as texts in Spark's SQL."""

    emit_every_us: int
    outputs: tuple[tuple[str, str], ...]  # SQL text, name
    group_by: tuple[str, ...]
    having: str | None

    @property
    def selected(self) -> tuple[str, ...]:
        """The SELECT list."""
        return tuple(f"{text} AS {quote_name(name)}" for text, name in self.outputs)


def grouped_texts(query: Query) -> GroupedTexts | None:
    """The texts of an aggregate; None where the query has none."""
    aggregate = query.aggregate
    if aggregate is None:
        return None
    types = {
        quote_ref(ColumnRef(item.alias, column.name)): column.type.lower()
        for item in query.inputs
        for column in item.stream.columns
    }
    type_of = types.get
    return GroupedTexts(
        aggregate.emit_every_us,
        tuple((without_distinct(output.expr.sql, type_of), output.name) for output in query.select),
        tuple(expr.sql for expr in aggregate.group_by),
        without_distinct(aggregate.having.sql, type_of) if aggregate.having else None,
    )


def group_samples(
    samples: DataFrame, grouped: GroupedTexts, keys: Sequence[str], selected: Sequence[str]
) -> DataFrame:
    """A row for each group of samples that agree in these keys and in what the aggregate groups by."""
    groups = ", ".join([*keys, *grouped.group_by])
    having = f" HAVING {grouped.having}" if grouped.having else ""
    # PySpark fills in {samples}, and would take any other brace for a name to fill in as well.
    head, rest = (
        _plain(text) for text in (f"SELECT {', '.join(selected)} FROM ", f" GROUP BY {groups}{having}")
    )
    return samples.sparkSession.sql(f"{head}{{samples}}{rest}", samples=samples)


def _plain(text: str) -> str:
    """A text for PySpark's `sql` in which braces stand for themselves."""
    return text.replace("{", "{{").replace("}", "}}")
