from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from watersmeet.oracle.event_time import compute_time
from watersmeet.query import Column, Connector, Stream
from watersmeet.query.declared.event_time import ComputedTime, find_event_time
from watersmeet.spark.sources.open_stream import read_batch

pytestmark = pytest.mark.spark

S = 1_767_225_600
WHOLE = [
    0,
    -1,
    999,
    -1001,
    S,
    S * 10**3 + 123,
    S * 10**6 + 7,
    S * 10**9 + 5,
    2**62,
    2**63 - 1,
    -(2**63),
    9223372036855,
]
FRACTIONS = [0.5, -0.5, S + 0.25, 1e300, -1e300, float("nan"), S * 1e3 + 0.75]
DECIMALS = [Decimal(f"{S}.123456"), Decimal("-0.5"), Decimal("99999999999999.5")]


def test_a_number_is_the_same_instant_for_spark_as_for_the_oracle_or_none(spark: SparkSession) -> None:
    """Numbers that are no instant are NULL; they never stop the query."""
    compared = 0
    for kind, values, units in [
        ("bigint", WHOLE, ("seconds", "milliseconds", "microseconds", "nanoseconds")),
        ("double", FRACTIONS, ("seconds", "milliseconds")),
        ("decimal(20,6)", DECIMALS, ("seconds", "milliseconds")),
    ]:
        frame = spark.createDataFrame([(value,) for value in values], f"x {kind}")
        for unit in units:
            computed = find_event_time([Column("x", kind)], "x", unit)
            assert isinstance(computed, ComputedTime)
            for row in frame.selectExpr("x", f"unix_micros({computed.sql}) AS t").collect():
                assert row.t == compute_time(computed, {"x": row.x}), (kind, unit, row.x)
                compared += row.t is not None
    assert compared > 30


def test_a_field_of_a_column_and_a_text_are_event_times(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(
        '{"meta": {"at": 1767225600123}, "text": "01.01.2026 00:00:01"}\n'
        '{"meta": null, "text": "yesterday"}\n{"meta": {"at": 9000000000000000000}}\n'
    )
    columns = (Column("meta", "struct<at:bigint>"), Column("text", "string"))
    source = Connector("json", (("path", str(tmp_path)),))
    stored = Stream("s", columns, source=source)
    for stream, first in [
        (stored.with_event_time("meta.at", "milliseconds"), (0, 123_000)),
        (stored.with_event_time("text", format="dd.MM.yyyy HH:mm:ss"), (1, 0)),
    ]:
        frame = read_batch(spark, stream, tmp_path)
        assert frame.columns == ["meta", "text", "event_time"]
        times = [row.t for row in frame.selectExpr("CAST(event_time AS TIMESTAMP_NTZ) AS t").collect()]
        assert times == [dt.datetime(2026, 1, 1, 0, 0, *first), None, None]
