"""The joining attributes of a sample: distinct values, heavy hitters, a histogram of the rest.

A value is a heavy hitter when the sample holds it more often than an even spread over the distinct values
would by chance: its count is above mean + 4 * sqrt(mean). Where there are no more than `LISTED` values, all
are listed, which is the exact case. Text, numbers and truth values are listed as they are, anything else as
Spark's text for it. NULL equals nothing, itself included, so each NULL of the sample counts as a value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    NumericType,
    StringType,
)

from watersmeet.plan.statistics.statistics import AttributeStatistics, Bin, Value
from watersmeet.query.expression import quote_name
from watersmeet.spark.analyze.byte_width import mean_bytes

LISTED = 20
BINS = 10
DEVIATIONS = 4.0  # standard deviations above the mean that an even spread hardly reaches


@dataclass(frozen=True)
class JoinColumn:
    """A joining attribute: the name statistics know it by, and its Spark SQL text."""

    name: str
    sql: str


@dataclass(frozen=True)
class _Counts:
    """One attribute in the sample."""

    name: str
    type: DataType
    nulls: int
    distinct: float
    value_bytes: float
    hot: tuple[tuple[Value, int], ...]

    @property
    def has_histogram(self) -> bool:
        return isinstance(self.type, NumericType) and self.distinct > LISTED

    @property
    def rest(self) -> str:
        """The values that are no heavy hitters, as Spark SQL; NULL for the others."""
        column = quote_name(self.name)
        as_number = f"CAST({column} AS DOUBLE)"
        finite = f"NOT isnan({as_number}) AND abs({as_number}) < double('Infinity')"
        listed = ", ".join(f"{float(value)!r}D" for value, _ in self.hot if not isinstance(value, str))
        others = f" AND {as_number} NOT IN ({listed})" if listed else ""
        return f"CASE WHEN {finite}{others} THEN {as_number} END"


def measure_attributes(
    rows: DataFrame, joins: Sequence[JoinColumn], rate_of_one: float
) -> dict[str, AttributeStatistics]:
    """The statistics of columns named as the joins are; a tuple of the sample stands for `rate_of_one`."""
    counted = _count(rows, joins)
    histograms = _histograms(rows, [counts for counts in counted if counts.has_histogram], rate_of_one)
    return {
        counts.name: AttributeStatistics(
            max(counts.distinct + counts.nulls, 1.0),
            tuple((value, count * rate_of_one) for value, count in counts.hot),
            histograms.get(counts.name, ()),
            max(counts.value_bytes, 1.0),
        )
        for counts in counted
    }


def _count(rows: DataFrame, joins: Sequence[JoinColumn]) -> list[_Counts]:
    """All attributes in one pass."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    measures = ["count(*)"]
    for join in joins:
        column = quote_name(join.name)
        measures += [
            f"count({column})",
            f"approx_count_distinct({column}, 0.02)",
            mean_bytes(column, types[join.name]),
            f"approx_top_k({listed_as(column, types[join.name])}, {LISTED + 2})",
        ]
    row = rows.selectExpr(*measures).collect()[0]
    counted = []
    for n, join in enumerate(joins):
        present, distinct, size, top = row[1 + 4 * n : 5 + 4 * n]
        listed = sum(1 for item in top if item["item"] is not None)
        values = float(listed if listed <= LISTED else distinct)  # a list that ends is the number itself
        hot = _heavy(top, present, values)
        counted.append(_Counts(join.name, types[join.name], row[0] - present, values, float(size), hot))
    return counted


def listed_as(column: str, type_: DataType) -> str:
    plain = isinstance(type_, StringType | BooleanType | IntegralType | FloatType | DoubleType | DecimalType)
    return column if plain else f"CAST({column} AS STRING)"


def _heavy(top: Sequence[Any], tuples: int, distinct: float) -> tuple[tuple[Value, int], ...]:
    mean = tuples / max(distinct, 1.0)
    least = 0.0 if distinct <= LISTED else mean + DEVIATIONS * math.sqrt(mean)
    hot = [(_value(item["item"]), int(item["count"])) for item in top if item["count"] > least]
    named = [(value, count) for value, count in hot if value is not None]
    return tuple(sorted(named, key=lambda pair: (-pair[1], str(pair[0])))[:LISTED])


def _value(item: Any) -> Value | None:
    """A value as a statistics file holds it; NULL, NaN and infinity are none."""
    if isinstance(item, Decimal):
        return float(item)
    if isinstance(item, float) and not math.isfinite(item):
        return None
    return item  # type: ignore[no-any-return]


def _histograms(
    rows: DataFrame, counted: Sequence[_Counts], rate_of_one: float
) -> dict[str, tuple[Bin, ...]]:
    """Equi-depth bins over the values that are no heavy hitters: first their edges, then their counts."""
    if not counted:
        return {}
    rest = rows.selectExpr(*(f"{counts.rest} AS {quote_name(counts.name)}" for counts in counted))
    steps = ", ".join(f"{n / BINS}D" for n in range(BINS + 1))
    percentiles = [f"approx_percentile({quote_name(counts.name)}, array({steps}))" for counts in counted]
    edges = [_edges(found) for found in rest.selectExpr(*percentiles).collect()[0]]
    measures = []
    for counts, limits in zip(counted, edges, strict=True):
        column = quote_name(counts.name)
        for low, high in pairwise(limits):
            inside = f"CASE WHEN {column} >= {low!r}D AND {column} < {high!r}D THEN {column} END"
            measures += [f"count({inside})", f"approx_count_distinct({inside}, 0.02)"]
    row = list(rest.selectExpr(*measures).collect()[0]) if measures else []
    histograms = {}
    for counts, limits in zip(counted, edges, strict=True):
        bins = []
        for low, high in pairwise(limits):
            tuples, distinct = row.pop(0), row.pop(0)
            if tuples:
                bins.append(Bin(low, high, tuples * rate_of_one, float(distinct)))
        histograms[counts.name] = tuple(bins)
    return histograms


def _edges(percentiles: Sequence[float] | None) -> list[float]:
    """Rising edges; the last bin ends just above the largest value."""
    limits = sorted(set(percentiles or ()))
    return [*limits[:-1], *([limits[-1]] if len(limits) == 1 else []), _above(limits[-1])] if limits else []


def _above(value: float) -> float:
    return value + 1.0 if value.is_integer() and abs(value) < 2**52 else math.nextafter(value, math.inf)
