"""Metrics ride on the join stage's output rows and are summed by `DataFrame.observe`.

They appear in Spark's own `StreamingQueryProgress.observedMetrics["watersmeet"]`: per input the tuples that
arrived, were late, or had no event time; per stream its largest event time; and the stage's state and work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from watersmeet.kernel import Grid, JoinBucket, JoinLayout
from watersmeet.query import BEGINNING
from watersmeet.spark.wire import UNKNOWN, WireRow

CHUNK = "chunk"

SUMMED = (
    "answers",
    "probes",
    "state_rows",
    "state_bytes",
    "memory_bytes",
    "state_chunks",
    "kernel_us",
    "stage_us",
)
BUSIEST = "busiest_stage_us"  # the largest stage_us of a bucket
WATERMARK_US = "watermark_us"


def metric_names(layout: JoinLayout, streams: tuple[str, ...]) -> tuple[str, ...]:
    """Every metric column of a join's output, in order."""
    per_input = [f"{kind}_{item.alias}" for item in layout.inputs for kind in ("input", "late", "undated")]
    per_stream = [f"max_ts_{stream}" for stream in dict.fromkeys(streams)]
    return (*SUMMED, *per_input, BUSIEST, WATERMARK_US, *per_stream)


def is_largest(name: str) -> bool:
    """Whether a metric is a largest value rather than a sum."""
    return name in (BUSIEST, WATERMARK_US) or name.startswith("max_ts_")


def stage_schema(layout: JoinLayout, streams: tuple[str, ...]) -> StructType:
    """The output of a join stage: a blob of answers, or none, and the metrics."""
    metrics = [StructField(name, LongType(), False) for name in metric_names(layout, streams)]
    return StructType([StructField(CHUNK, BinaryType(), False), *metrics])


def observed(layout: JoinLayout, streams: tuple[str, ...]) -> list[Column]:
    """The aggregates to observe."""
    return [
        (F.max if is_largest(name) else F.sum)(f"`{name}`").alias(name)
        for name in metric_names(layout, streams)
    ]


@dataclass
class StageMetrics:
    """The metrics of one bucket's step."""

    values: dict[str, int]
    streams: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    neutral: dict[str, int] = field(default_factory=dict)

    @classmethod
    def named(cls, layout: JoinLayout, streams: tuple[str, ...]) -> StageMetrics:
        names = metric_names(layout, streams)
        neutral = {name: BEGINNING if is_largest(name) and name != BUSIEST else 0 for name in names}
        return cls(dict(neutral), streams, tuple(item.alias for item in layout.inputs), neutral)

    def set(self, name: str, value: int) -> None:
        self.values[name] = value
        if name == "stage_us":
            self.values[BUSIEST] = value

    def count_arrivals(self, grid: Grid, number: int, rows: list[WireRow], bucket: JoinBucket) -> None:
        """Counts each tuple once, in the first of the buckets it was sent to."""
        for index, alias in enumerate(self.aliases):
            own = [row for row in rows if row.input == index]
            classes = bucket.join.layout.of(alias).classes
            if grid.is_home(number, classes):
                self.values[f"input_{alias}"] = sum(row.rows for row in own)
                late = bucket.join.counts.late.get(alias, 0)
                self.values[f"late_{alias}"] = late + sum(row.late for row in own)
                self.values[f"undated_{alias}"] = sum(row.undated for row in own)
            name = f"max_ts_{self.streams[index]}"
            self.values[name] = max(self.values[name], *(row.max_ts for row in own), UNKNOWN)

    def count_state(self, bucket: JoinBucket) -> None:
        self.values |= {
            "probes": bucket.join.counts.probes,
            "state_rows": bucket.state_rows,
            "state_bytes": bucket.state_bytes,
            "memory_bytes": bucket.nbytes,
            "state_chunks": bucket.join.chunk_count,
            WATERMARK_US: bucket.watermark.now,
        }

    def frame(self) -> pd.DataFrame:
        """The row of metrics that ends a step."""
        return pd.DataFrame({CHUNK: [b""], **{name: [value] for name, value in self.values.items()}})

    def answer_frame(self, blob: bytes) -> pd.DataFrame:
        """A row of answers, which adds nothing to the metrics."""
        return pd.DataFrame({CHUNK: [blob], **{name: [value] for name, value in self.neutral.items()}})
