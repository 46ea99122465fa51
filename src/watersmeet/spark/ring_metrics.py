"""What a ring tells of each batch, summed by `DataFrame.observe` as the metrics of one query are.

Streams take the place of inputs: `input_s1` are the tuples of s1 that arrived, `sent_s1` those that were
sent, once for each attribute in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import RingBucket
from watersmeet.query import BEGINNING
from watersmeet.spark.metrics import WATERMARK_US, is_largest
from watersmeet.spark.ring_wire import MARK, RingRow
from watersmeet.spark.wire import UNKNOWN

SUMMED = (
    "answers",
    "probes",
    "state_rows",
    "state_bytes",
    "memory_bytes",
    "kernel_us",
    "stage_us",
    "arrived_bytes",
    "combinations",  # results of joins, at all levels
    "stored",  # of these, kept at a later level: rewritten queries that wait for more tuples
)


def ring_metric_names(streams: Sequence[str], levels: int) -> tuple[str, ...]:
    """Every metric of a ring, in order."""
    per_stream = [f"{kind}_{name}" for name in streams for kind in ("input", "sent", "late", "undated")]
    per_level = [f"{kind}_level_{n}" for n in range(1, levels + 1) for kind in ("state_rows", "combinations")]
    times = [f"max_ts_{name}" for name in streams]
    return (*SUMMED, *per_stream, *per_level, WATERMARK_US, *times)


def ring_observed(streams: Sequence[str], levels: int) -> list[Column]:
    """The aggregates to observe."""
    return [
        (F.max if is_largest(name) else F.sum)(F.get(F.col("metrics"), place)).alias(name)
        for place, name in enumerate(ring_metric_names(streams, levels))
    ]


class RingMetrics:
    """The metrics of one bucket of one level."""

    def __init__(self, streams: Sequence[str], levels: int) -> None:
        self._streams = streams
        is_time = {
            n: n == WATERMARK_US or n.startswith("max_ts_") for n in ring_metric_names(streams, levels)
        }
        self._values = {name: BEGINNING if is_time[name] else 0 for name in is_time}

    @property
    def values(self) -> list[int]:
        return list(self._values.values())

    def set(self, name: str, value: int) -> None:
        self._values[name] = value

    def count(
        self, level: int, rows: Sequence[RingRow], bucket: RingBucket, after: Mapping[str, int]
    ) -> None:
        """Counts what arrived and what is kept."""
        counts = bucket.counts
        for row in rows:
            if row.source.startswith(MARK):
                stream = row.source.removeprefix(MARK)
                self._values[f"input_{stream}"] += row.rows
                self._values[f"undated_{stream}"] += row.undated
                self._values[f"max_ts_{stream}"] = max(self._values[f"max_ts_{stream}"], row.max_ts, UNKNOWN)
        for stream, late in counts.late.items():
            self._values[f"late_{stream}"] += late
        self._values |= {
            "answers": sum(counts.answers.values()),
            "probes": counts.probes,
            "state_rows": sum(bucket.state_rows.values()),
            "state_bytes": sum(bucket.state_bytes.values()),
            "memory_bytes": bucket.used_bytes,
            "arrived_bytes": sum(len(row.chunk) for row in rows),
            "combinations": counts.results,
            "stored": counts.stored,
            f"state_rows_level_{level}": sum(bucket.state_rows.values()),
            f"combinations_level_{level}": counts.results,
            WATERMARK_US: min(after.values(), default=BEGINNING),
        }
