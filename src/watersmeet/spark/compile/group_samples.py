"""GROUP BY over answers that were sampled at ticks, in Spark SQL: of a stream, or of one batch."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from watersmeet.query.expression import quote_name
from watersmeet.spark.compile.tasks import GroupedTexts


def group(spark: SparkSession, sampled: DataFrame, grouped: GroupedTexts, each: Sequence[str]) -> DataFrame:
    """The groups of each tick, which `each` are the columns of."""
    outputs = ", ".join(f"{text} AS {quote_name(name)}" for text, name in grouped.outputs)
    groups = ", ".join([*each, *grouped.group_by])
    having = f" HAVING {grouped.having}" if grouped.having else ""
    # PySpark fills in {sampled}, and would take any other brace for a name to fill in as well.
    selected, rest = (_plain(text) for text in (f"SELECT {outputs} FROM ", f" GROUP BY {groups}{having}"))
    return spark.sql(f"{selected}{{sampled}}{rest}", sampled=sampled)


def _plain(text: str) -> str:
    """A text for PySpark's `sql` in which braces stand for themselves."""
    return text.replace("{", "{{").replace("}", "}}")
