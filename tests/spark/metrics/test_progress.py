from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.kernel import lay_out
from watersmeet.query import BEGINNING, Column, Stream
from watersmeet.spark.generator.generator import FORMAT
from watersmeet.spark.metrics.metrics import METRICS, Metric, Metrics, max_ts
from watersmeet.spark.metrics.progress import Progress, parse_progress
from watersmeet.spark.stages.join_metrics import join_metrics
from watersmeet.sql import bind_query


def report(batch: int, at: str = "2025-01-01T00:00:10.000Z", **metrics: int | None) -> dict[str, Any]:
    """What Spark reports, as far as it is read."""
    return {
        "batchId": batch,
        "timestamp": at,
        "numInputRows": sum(value or 0 for name, value in metrics.items() if name.startswith("input_")),
        "durationMs": {"triggerExecution": 500, "addBatch": 400},
        "observedMetrics": {"watersmeet": {"metrics": metrics}} if metrics else {},
    }


FIRST = report(
    3,
    input_a=1000, late_a=2, null_times_a=1, input_b=500, late_b=0, null_times_b=0,
    max_ts_r1=9_000_000, max_ts_r2=7_000_000, watermark_us=6_000_000,
    state_rows=1500, state_bytes=64_000, answers=250, kernel_us=12_500,
)  # fmt: skip
STREAMS = {"a": "r1", "b": "r2"}


def test_a_report_covers_each_input_and_the_query() -> None:
    progress = parse_progress(FIRST, STREAMS)
    assert [item.alias for item in progress.inputs] == ["a", "b"]
    assert [item.rows_per_s for item in progress.inputs] == [2000, 1000]
    assert [item.late for item in progress.inputs] == [2, 0]
    assert [item.null_times for item in progress.inputs] == [1, 0]
    assert [item.ahead_us for item in progress.inputs] == [3_000_000, 1_000_000]
    assert (progress.batch_id, progress.batch_ms, progress.kernel_ms) == (3, 500, 12.5)
    assert (progress.answers, progress.answers_per_s) == (250, 500)
    assert (progress.state_rows, progress.state_bytes) == (1500, 64_000)


def test_rates_are_over_the_time_since_the_report_before_when_batches_leave_gaps() -> None:
    first = parse_progress(FIRST, STREAMS)
    second = parse_progress(report(4, "2025-01-01T00:00:12.000Z", input_a=1000, answers=10), STREAMS, first)
    assert second.inputs[0].rows_per_s == 500
    assert second.answers_per_s == 5


def test_totals_go_on_from_the_report_before() -> None:
    first = parse_progress(FIRST, STREAMS)
    second = parse_progress(report(4, input_a=10, late_a=4, answers=3), STREAMS, first)
    assert (second.totals.rows, second.totals.late, second.totals.answers) == (1510, 6, 253)
    assert second.totals.batches == 2


def test_a_stream_that_sent_nothing_keeps_its_newest_time() -> None:
    first = parse_progress(FIRST, STREAMS)
    quiet = report(4, input_a=0, input_b=5, max_ts_r1=BEGINNING, max_ts_r2=8_000_000, watermark_us=7_000_000)
    second = parse_progress(quiet, STREAMS, first)
    assert [item.max_ts_us for item in second.inputs] == [9_000_000, 8_000_000]
    assert [item.ahead_us for item in second.inputs] == [2_000_000, 1_000_000]


@pytest.mark.parametrize("observed", [{}, {"watersmeet": {"metrics": None}}])
def test_a_batch_without_metrics_keeps_the_state_and_counts_nothing(observed: dict[str, Any]) -> None:
    first = parse_progress(FIRST, STREAMS)
    idle = parse_progress(report(4) | {"observedMetrics": observed}, STREAMS, first)
    assert (idle.state_rows, idle.watermark_us) == (1500, 6_000_000)
    assert (idle.rows, idle.answers, idle.totals.answers) == (0, 0, 250)


def test_an_idle_report_of_the_same_batch_changes_nothing() -> None:
    first = parse_progress(FIRST, STREAMS)
    assert parse_progress(report(3, "2025-01-01T00:00:20.000Z"), STREAMS, first) is first


def test_before_any_watermark_there_is_no_distance_to_it() -> None:
    progress = parse_progress(report(0, input_a=1, max_ts_a=5, watermark_us=BEGINNING))
    assert progress.watermark_us is None
    assert progress.inputs[0].ahead_us is None


def test_the_json_of_progress_is_plain() -> None:
    progress = parse_progress(FIRST, STREAMS)
    document = json.loads(json.dumps(progress.as_json()))
    assert document["rows"] == 1500
    assert document["inputs"][0]["alias"] == "a"
    assert set(document) > set(Progress.__dataclass_fields__) - {"totals", "site"}
    assert {name: document[name] for name in document if name.startswith("total_")} == {
        "total_rows": 1500,
        "total_late": 2,
        "total_ahead": 0,
        "total_answers": 250,
        "total_batches": 1,
        "total_malformed": 0,
        "total_shed": 0,
        "total_combinations": 0,
        "total_missed": 0,
        "total_left_out": 0,
        "total_completeness": 1,
    }


def test_what_spark_itself_reports_is_understood(spark: SparkSession, tmp_path: Path) -> None:
    source = spark.readStream.format(FORMAT).options(rows="100", rows_per_batch="60").load()
    reported = F.concat_ws(",", F.lit("1,1"), F.unix_micros("ts"))
    reported_by_even = F.when(F.unix_micros("ts") % 2000 == 0, reported)  # the others are answers alone
    output = source.repartition(3).select(reported_by_even.alias(METRICS))
    metrics = Metrics([max_ts("r1"), Metric("input_a"), Metric("answers")])
    query = (
        metrics.observed(output, "watersmeet")
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = None
    for spark_report in query.recentProgress:
        progress = parse_progress(json.loads(spark_report.json), {"a": "r1"}, progress)
        assert parse_progress(spark_report, {"a": "r1"}).answers == progress.answers
    assert progress is not None
    assert (progress.totals.rows, progress.totals.answers, progress.answers) == (50, 50, 20)
    assert progress.inputs[0].max_ts_us == 1_735_689_600_000_000 + 98 * 1000
    assert progress.batch_ms > 0


def test_no_two_metrics_have_one_name_whatever_the_aliases() -> None:
    aliases = ("a", "bytes_a", "kept_a", "ts_a")
    key = Column("k", "bigint")
    streams = [Stream(f"s{number}", (key, Column("ts", "timestamp")), "ts") for number in range(4)]
    inputs = ", ".join(f"s{n} [RANGE 1 SECOND] AS {alias}" for n, alias in enumerate(aliases))
    equal = " AND ".join(f"a.k = {alias}.k" for alias in aliases[1:])
    query = bind_query(f"SELECT a.k FROM {inputs} WHERE {equal}", streams)
    names = join_metrics(lay_out(query), tuple(stream.name for stream in streams)).names
    assert len(set(names)) == len(names)


def test_malformed_messages_are_counted_by_stream_whoever_reads_it() -> None:
    bad = report(3, input_a=5, input_b=5, input_c=5)
    bad["observedMetrics"] |= {"malformed_r1": {"malformed": 4}, "malformed_r2": {"malformed": None}}
    streams = {"a": "r1", "b": "r1", "c": "r2"}
    first = parse_progress(bad, streams)
    assert [item.malformed for item in first.inputs] == [4, 4, 0]
    assert (first.malformed, first.totals.malformed) == (4, 4)
    second = parse_progress(report(4, input_a=1), streams, first)
    assert (second.malformed, second.totals.malformed) == (0, 4)


def test_shed_tuples_and_completeness_are_reported_and_summed_up() -> None:
    first = parse_progress(report(1, input_a=10, shed_a=4, kept_a=6, combinations=30, missed_milli=10_000))
    assert (first.shed, first.totals.shed, first.inputs[0].kept) == (4, 4, 6)
    assert first.completeness == first.totals.completeness == 0.75
    second = parse_progress(report(2, input_a=10, shed_a=1, combinations=60, missed_milli=0), None, first)
    assert (second.completeness, second.totals.shed) == (1.0, 5)
    assert second.totals.completeness == 0.9
    quiet = parse_progress(report(3, input_a=1, combinations=0, missed_milli=0), None, first)
    assert quiet.completeness == 0.75
    assert parse_progress(FIRST, STREAMS).totals.completeness == 1


def test_the_rate_by_event_time_needs_two_batches_and_not_the_clock() -> None:
    first = parse_progress(report(1, input_a=500, max_ts_a=1_000_000))
    assert first.inputs[0].event_rows_per_s is None
    second = parse_progress(report(2, input_a=300, max_ts_a=4_000_000), None, first)
    assert second.inputs[0].event_rows_per_s == 100
    assert second.as_json()["inputs"][0]["event_rows_per_s"] == 100
