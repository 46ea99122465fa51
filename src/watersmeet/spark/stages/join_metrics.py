"""The metrics of a join: what arrived, what is kept, and what it took.

Per input the tuples that arrived, were late, had no event time or one too far ahead, were shed and are kept;
per stream its largest event time; and the stage's state and work.
"""

from __future__ import annotations

from watersmeet.kernel import JoinBucket, JoinLayout
from watersmeet.spark.exchange.hot_keys import table_of
from watersmeet.spark.exchange.messages import ReadRows
from watersmeet.spark.metrics.metrics import WATERMARK, Combine, Metric, Metrics, MetricValues, max_ts
from watersmeet.spark.stages.read_batch import Arrived
from watersmeet.spark.stages.stage_plan import StagePlan


def join_metrics(layout: JoinLayout, streams: tuple[str, ...]) -> Metrics:
    """Every metric of a join."""
    kinds = (
        "input",
        "late",
        "null_times",
        "ahead",
        "shed",
        "read",
        "passed",
        "keyless",
        "kept",
        "bytes_kept",
    )  # none is the start of another
    return Metrics(
        [
            Metric("answers"),
            Metric("probes"),
            Metric("state_rows"),
            Metric("state_bytes"),
            Metric("memory_bytes"),
            Metric("state_chunks"),
            Metric("kernel_us"),
            Metric("stage_us"),
            Metric("combinations"),  # what the join found, of which `answers` are made
            Metric("missed_milli"),  # thousandths of combinations, as estimated
            Metric("arrived_bytes"),
            Metric("work"),
            Metric("buckets"),
            *(Metric(f"{kind}_{item.alias}") for item in layout.inputs for kind in kinds),
            *(Metric(null_key(cls, item.alias)) for item in layout.inputs for cls in item.classes),
            Metric("busiest_stage_us", Combine.LARGEST),
            Metric("busiest_work", Combine.LARGEST),  # of a bucket: tuples taken in, copies too, and answers
            Metric("hot_values", Combine.LARGEST),  # in the routing table
            WATERMARK,
            *map(max_ts, dict.fromkeys(streams)),
        ]
    )


def null_key(cls: int, alias: str) -> str:
    """The metric of tuples of an input that have no value of an attribute."""
    return f"null_key_{cls}_{alias}"


def measure_join(
    values: MetricValues, plan: StagePlan, number: int, bucket: JoinBucket, arrived: Arrived, answers: int
) -> None:
    """Counts a micro-batch of a bucket, once it is joined: what its stage has a part in."""
    work = arrived.rows.total() + arrived.results + answers
    values.update(
        answers=answers,
        work=work,
        busiest_work=work,
        buckets=1,
        hot_values=len(table_of(bucket.hot).values),
        arrived_bytes=arrived.nbytes,
        probes=bucket.counts.probes,
        combinations=bucket.counts.answers,
        missed_milli=round(1000 * bucket.counts.missed),
        state_rows=bucket.state_rows,
        state_bytes=bucket.state_bytes,
        memory_bytes=bucket.used_bytes + bucket.waiting_bytes,
        state_chunks=bucket.join.chunk_count,
        watermark_us=bucket.watermark.now,
    )
    for index, item in enumerate(plan.bucket.layout.inputs):
        if not plan.joins(index):
            continue
        alias = item.alias
        store = bucket.join.stores[alias]
        values[f"shed_{alias}"] = bucket.counts.shed.get(alias, 0)
        values[f"kept_{alias}"] = store.live_rows
        values[f"bytes_kept_{alias}"] = store.payload_bytes
        if plan.grid.is_home(number, item.routing_classes):  # a tuple counts in the first of its buckets
            late = bucket.counts.late.get(alias, 0) - arrived.late_copies[index]
            dropped = arrived.left_out(index)
            values[f"input_{alias}"] = arrived.rows[index] - arrived.copies[index]
            values[f"late_{alias}"] = late + dropped.late
            values[f"null_times_{alias}"] = dropped.null_times
            values[f"ahead_{alias}"] = dropped.ahead
            read = ReadRows.from_bytes(dropped.read)
            values[f"read_{alias}"] = read.read
            values[f"passed_{alias}"] = read.kept
            values[f"keyless_{alias}"] = read.lacking
            for cls, count in read.null_keys.items():
                values[null_key(cls, alias)] = count
    for reading, stream in enumerate(plan.streams):
        newest = max_ts(stream).name
        values[newest] = max([values[newest], *(message.max_ts for message in arrived.of(reading))])
