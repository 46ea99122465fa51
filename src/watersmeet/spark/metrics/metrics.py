"""Metrics ride on a stage's output rows and are put together by `DataFrame.observe`.

A stage declares its metrics once, with the way in which buckets' numbers are put together. Names, order and
text all follow from the declaration, so nobody else has to know the order. The numbers appear in Spark's own
`StreamingQueryProgress.observedMetrics["watersmeet"]["metrics"]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.query import BEGINNING

METRICS = "metrics"  # all numbers in one text: each column of a stage's output costs time in every batch


class Combine(Enum):
    """How the numbers of buckets are put together."""

    SUM = "sum"
    LARGEST = "largest"


@dataclass(frozen=True)
class Metric:
    """One number that every bucket tells of every batch."""

    name: str
    combine: Combine = Combine.SUM
    start: int = 0


WATERMARK = Metric("watermark_us", Combine.LARGEST, BEGINNING)


def max_ts(stream: str) -> Metric:
    """The largest event time of a stream."""
    return Metric(f"max_ts_{stream}", Combine.LARGEST, BEGINNING)


class Metrics:
    """The metrics of a stage; those that are sums come first, as `observed` needs it."""

    def __init__(self, declared: Iterable[Metric]) -> None:
        self._metrics = sorted(declared, key=lambda metric: metric.combine is not Combine.SUM)
        assert len(set(self.names)) == len(self._metrics), "a metric is declared twice"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(metric.name for metric in self._metrics)

    def start(self) -> MetricValues:
        """The numbers of one bucket in one batch, before anything is counted."""
        return MetricValues({metric.name: metric.start for metric in self._metrics})

    def combined(self, texts: Iterable[str]) -> dict[str, int]:
        """The metrics of several buckets together, as `observed` has them; empty if none has reported."""
        rows = [[int(number) for number in text.split(",")] for text in texts]
        if not rows:
            return {}
        return {
            metric.name: sum(numbers) if metric.combine is Combine.SUM else max(numbers)
            for metric, numbers in zip(self._metrics, zip(*rows, strict=True), strict=True)
        }

    def observed(self, output: DataFrame, name: str, text: Column | None = None) -> DataFrame:
        """A stage's output with its metrics observed under a name, as one map.

        One aggregate collects what each bucket reported, and the numbers are put together where Spark reports
        them: an aggregate for each would be planned, compiled and run over every answer in every batch.
        `text` is the column of the texts, NULL in all rows that have none.
        """
        sums, count = sum(metric.combine is Combine.SUM for metric in self._metrics), len(self._metrics)

        def together(so_far: Column, reported: Column) -> Column:
            parts = [(F.slice(so_far, 1, sums), F.slice(reported, 1, sums))]
            parts.append((F.slice(so_far, sums + 1, count - sums), F.slice(reported, sums + 1, count - sums)))
            summed = F.zip_with(*parts[0], lambda one, two: one + two)
            largest = F.zip_with(*parts[1], lambda one, two: F.greatest(one, two))
            return F.coalesce(F.concat(summed, largest), reported)

        texts = F.collect_list(F.col(METRICS) if text is None else text)
        reported = F.transform(texts, lambda one: F.split(one, ",").cast("array<bigint>"))
        numbers = F.aggregate(reported, F.lit(None).cast("array<bigint>"), together)
        names = F.array(*map(F.lit, self.names))
        return output.observe(name, F.map_from_arrays(names, numbers).alias(METRICS))


class MetricValues:
    """Numbers by name; a name that was not declared is refused."""

    def __init__(self, values: dict[str, int]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> int:
        return self._values[name]

    def __setitem__(self, name: str, value: int) -> None:
        if name not in self._values:
            raise KeyError(f"no metric {name} is declared")
        self._values[name] = value

    def update(self, **values: int) -> None:
        for name, value in values.items():
            self[name] = value

    @property
    def text(self) -> str:
        """All numbers, in the order of the declaration."""
        return ",".join(map(str, self._values.values()))
