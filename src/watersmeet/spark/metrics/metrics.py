"""Metrics ride on the join stage's output rows and are summed by `DataFrame.observe`.

They appear in Spark's own `StreamingQueryProgress.observedMetrics["watersmeet"]["metrics"]`: per input the
tuples that arrived, were late, had no event time, were shed and are kept; per stream its largest event time;
and the stage's state and work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import Grid, HotTable, JoinBucket, JoinLayout
from watersmeet.query import BEGINNING
from watersmeet.spark.exchange.wire import UNKNOWN, WireRow

METRICS = "metrics"  # all numbers in one text: each column of a stage's output costs time in every batch

SUMMED = (
    "answers",
    "probes",
    "state_rows",
    "state_bytes",
    "memory_bytes",
    "state_chunks",
    "kernel_us",
    "stage_us",
    "combinations",  # what the join found, of which `answers` are made
    "missed_milli",  # thousandths of combinations, as estimated
    "arrived_bytes",
    "work",
    "buckets",
)
BUSIEST = "busiest_stage_us"  # the largest stage_us of a bucket
BUSIEST_WORK = "busiest_work"  # the largest work of a bucket: tuples taken in, copies too, and answers given
HOT_VALUES = "hot_values"  # in the routing table
WATERMARK_US = "watermark_us"


def metric_names(layout: JoinLayout, streams: tuple[str, ...]) -> tuple[str, ...]:
    """Every metric column of a join's output, in order."""
    kinds = ("input", "late", "null_times", "shed", "kept", "bytes_kept")  # none is the start of another
    per_input = [f"{kind}_{item.alias}" for item in layout.inputs for kind in kinds]
    per_stream = [f"max_ts_{stream}" for stream in dict.fromkeys(streams)]
    return (*SUMMED, *per_input, BUSIEST, BUSIEST_WORK, HOT_VALUES, WATERMARK_US, *per_stream)


def is_largest(name: str) -> bool:
    """Whether a metric is a largest value rather than a sum."""
    return name in (BUSIEST, BUSIEST_WORK, HOT_VALUES, WATERMARK_US) or name.startswith("max_ts_")


def as_text(values: Mapping[str, int]) -> str:
    """Metrics in the order of their names, as a stage's output has them."""
    return ",".join(map(str, values.values()))


def observed(output: DataFrame, name: str, metrics: Sequence[str]) -> DataFrame:
    """A stage's output with its metrics observed under a name, as one map; those that are sums come first.

    One aggregate gathers what each bucket told, and the numbers are put together where Spark reports them:
    an aggregate for each would be planned, compiled and run over every answer in every batch.
    """
    sums, count = sum(not is_largest(metric) for metric in metrics), len(metrics)

    def together(so_far: Column, told: Column) -> Column:
        summed = F.zip_with(F.slice(so_far, 1, sums), F.slice(told, 1, sums), lambda one, two: one + two)
        first, second = (F.slice(numbers, sums + 1, count - sums) for numbers in (so_far, told))
        largest = F.zip_with(first, second, lambda one, two: F.greatest(one, two))
        return F.coalesce(F.concat(summed, largest), told)

    told = F.transform(F.collect_list(METRICS), lambda text: F.split(text, ",").cast("array<bigint>"))
    numbers = F.aggregate(told, F.lit(None).cast("array<bigint>"), together)
    return output.observe(name, F.map_from_arrays(F.array(*map(F.lit, metrics)), numbers).alias(METRICS))


@dataclass
class StageMetrics:
    """The metrics of one bucket's step."""

    values: dict[str, int]
    streams: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @classmethod
    def named(cls, layout: JoinLayout, streams: tuple[str, ...]) -> StageMetrics:
        names = metric_names(layout, streams)
        is_time = {name: name == WATERMARK_US or name.startswith("max_ts_") for name in names}
        values = {name: BEGINNING if is_time[name] else 0 for name in names}
        return cls(values, streams, tuple(item.alias for item in layout.inputs))

    def set(self, name: str, value: int) -> None:
        self.values[name] = value
        if name == "stage_us":
            self.values[BUSIEST] = value

    def count_arrivals(
        self, grid: Grid, number: int, rows: list[WireRow], bucket: JoinBucket, late_copies: Mapping[int, int]
    ) -> None:
        """Counts each tuple once, in the first of the buckets it was sent to; copies are not counted."""
        self.values["arrived_bytes"] = sum(row.nbytes for row in rows)
        for index, alias in enumerate(self.aliases):
            own = [row for row in rows if row.input == index]
            classes = bucket.join.layout.of(alias).classes
            if grid.is_home(number, classes):
                self.values[f"input_{alias}"] = sum(row.rows - row.copies for row in own)
                late = bucket.counts.late.get(alias, 0) - late_copies.get(index, 0)
                self.values[f"late_{alias}"] = late + sum(row.late for row in own)
                self.values[f"null_times_{alias}"] = sum(row.null_times for row in own)
            name = f"max_ts_{self.streams[index]}"
            self.values[name] = max(self.values[name], *(row.max_ts for row in own), UNKNOWN)

    def count_state(self, bucket: JoinBucket) -> None:
        for alias, store in bucket.join.stores.items():
            self.values[f"shed_{alias}"] = bucket.counts.shed.get(alias, 0)
            self.values[f"kept_{alias}"] = store.live_rows
            self.values[f"bytes_kept_{alias}"] = store.payload_bytes
        self.values |= {
            "probes": bucket.counts.probes,
            "combinations": bucket.counts.answers,
            "missed_milli": round(1000 * bucket.counts.missed),
            "state_rows": bucket.state_rows,
            "state_bytes": bucket.state_bytes,
            "memory_bytes": bucket.used_bytes + bucket.waiting_bytes,
            "state_chunks": bucket.join.chunk_count,
            WATERMARK_US: bucket.watermark.now,
        }

    def count_work(self, rows: list[WireRow], answers: int, table: HotTable) -> None:
        work = sum(row.rows for row in rows) + answers
        self.values |= {
            "answers": answers,
            "work": work,
            BUSIEST_WORK: work,
            "buckets": 1,
            HOT_VALUES: len(table.values),
        }

    @property
    def text(self) -> str:
        return as_text(self.values)
