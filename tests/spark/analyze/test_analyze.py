"""Statistics measured from small parquet files whose numbers are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError, DataError, WatersmeetError
from watersmeet.plan.explain import explain
from watersmeet.plan.statistics.file import read_statistics, write_statistics
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics
from watersmeet.query import Pipeline, Stream
from watersmeet.spark.analyze.analyze import analyze
from watersmeet.spark.sources.open_stream import read_batch
from watersmeet.sql import parse_pipeline

ROWS = 1000
SQL = """
CREATE STREAM r (k BIGINT, name STRING, tags ARRAY<STRING>, unused STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'r', event_time = 'ts', site = 'paris');
CREATE STREAM s (k BIGINT, name STRING, tags ARRAY<STRING>, unused STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 's', event_time = 'ts', site = 'oslo');
SELECT a.name, answer_time FROM r [RANGE 10 SECONDS] AS a, s [RANGE 10 SECONDS] AS b
WHERE a.k = b.k AND a.name = b.name AND array_sort(a.tags) = array_sort(b.tags) AND a.k < 250;
"""


def write(folder: Path, ks: list[int | None], apart_us: int = 500_000) -> None:
    """A row every half second: `k` as given, `name` one of three, `tags` one of two."""
    folder.mkdir()
    table = pa.table(
        {
            "k": pa.array(ks, pa.int64()),
            "name": pa.array([("x", "yy", None, "yy")[n % 4] for n in range(len(ks))], pa.string()),
            "tags": pa.array([["b", "a"] if n % 2 else ["c"] for n in range(len(ks))], pa.list_(pa.string())),
            "unused": pa.array(["a long text that no query reads"] * len(ks), pa.string()),
            "ts": pa.array([n * apart_us for n in range(len(ks))], pa.timestamp("us", tz="UTC")),
        }
    )
    pq.write_table(table, folder / "f.parquet")


def reader(spark: SparkSession, base: Path) -> Callable[[Stream], DataFrame]:
    return lambda stream: read_batch(spark, stream, base)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In r a third of the tuples have k = 7, the others all differ; s counts from 0 to 9."""
    folder = tmp_path_factory.mktemp("analyze")
    write(folder / "r", [7 if n % 3 == 0 else 1000 + n for n in range(ROWS)])
    write(folder / "s", [n % 10 for n in range(ROWS)], apart_us=100_000)
    return folder


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return parse_pipeline(SQL)


@pytest.fixture(scope="module")
def measured(spark: SparkSession, base: Path, pipeline: Pipeline) -> Statistics:
    return analyze(spark, pipeline, reader(spark, base), sample_rows=ROWS)


def test_rates_sizes_and_sites(measured: Statistics) -> None:
    assert measured.stream("r").rate_per_s == pytest.approx(2.0)
    assert measured.stream("s").rate_per_s == pytest.approx(10.0)
    assert measured.stream("r").site == "paris"
    # Eight bytes each for k and ts, 1.25 for name with its NULLs, and 6 or 3 for the text of the tags.
    assert measured.stream("r").tuple_bytes == pytest.approx(8 + 8 + 1.25 + (len("[b, a]") + len("[c]")) / 2)


def test_a_hot_value_is_listed_and_the_rest_is_a_histogram(measured: Statistics) -> None:
    k = measured.attribute("r", "k")
    hot = -(-ROWS // 3)
    assert k.heavy_hitters == ((7, pytest.approx(2.0 * hot / ROWS)),)
    assert k.distinct == pytest.approx(ROWS - hot + 1, rel=0.06)
    assert len(k.histogram) == 10
    assert k.histogram[0].low == 1001
    assert k.histogram[-1].high == 1999  # the largest value is 1998
    assert sum(bucket.rate_per_s for bucket in k.histogram) == pytest.approx(2.0 * (ROWS - hot) / ROWS)
    assert max(bucket.rate_per_s for bucket in k.histogram) < 0.2 * 2.0 * (ROWS - hot) / ROWS
    assert k.value_bytes == 8


def test_few_values_are_all_listed(measured: Statistics) -> None:
    k = measured.attribute("s", "k")
    assert (k.distinct, k.histogram) == (10, ())
    assert dict(k.heavy_hitters) == pytest.approx(dict.fromkeys(range(10), 1.0))


def test_null_is_no_value_and_meets_nothing(measured: Statistics) -> None:
    name = measured.attribute("r", "name")
    assert dict(name.heavy_hitters) == pytest.approx({"yy": 1.0, "x": 0.5})
    assert name.distinct == 2 + ROWS / 4
    agreeing = 0.25 * 0.25 + 0.5 * 0.5
    assert measured.selectivity("r", "name", "s", "name") == pytest.approx(agreeing, abs=0.001)


def test_an_expression_goes_by_its_text(measured: Statistics) -> None:
    tags = measured.attribute("r", "array_sort(a.tags)")
    assert dict(tags.heavy_hitters) == pytest.approx({"[a, b]": 1.0, "[c]": 1.0})


def test_filters_are_measured(measured: Statistics) -> None:
    assert measured.filters == {"a.k < 250": pytest.approx(-(-ROWS // 3) / ROWS)}


def test_what_is_measured_is_written_read_and_explained(
    measured: Statistics, pipeline: Pipeline, tmp_path: Path
) -> None:
    write_statistics(measured, tmp_path / "stats.json")
    assert read_statistics(tmp_path / "stats.json") == measured
    explained = explain(pipeline.queries[0], measured)
    assert explained.chosen.unit == "bytes/s"
    assert explained.notes == ()


def test_the_sample_is_bounded(spark: SparkSession, base: Path, pipeline: Pipeline) -> None:
    small = analyze(spark, pipeline, reader(spark, base), sample_rows=50)
    assert small.stream("r").rate_per_s == pytest.approx(2.0)
    assert small.attribute("r", "k").distinct <= 50


@pytest.mark.parametrize(
    ("ks", "apart_us", "message"),
    [
        ([], 1, "stream r: its source has no tuples yet"),
        ([1, 2, 3], 0, "stream r: all 3 tuples of the sample have the same ts"),
        ([1], 1, "stream r: all 1 tuples of the sample have the same ts"),
    ],
)
def test_a_source_that_shows_no_rate_is_refused(
    spark: SparkSession, tmp_path: Path, pipeline: Pipeline, ks: list[int | None], apart_us: int, message: str
) -> None:
    write(tmp_path / "r", ks, apart_us)
    with pytest.raises(DataError, match=message):
        analyze(spark, pipeline, reader(spark, tmp_path), sample_rows=10)


@pytest.mark.parametrize(
    ("sql", "rows", "message"),
    [
        (
            SQL.replace(", event_time = 'ts'", ""),
            10,
            "stream r declares no event_time, so a sample does not show",
        ),
        (SQL, 1, "a sample needs at least 2 rows, not 1"),
        (SQL.split("SELECT")[0], 10, "nothing to analyze: the pipeline has no query"),
    ],
)
def test_what_cannot_be_analyzed_is_refused(
    spark: SparkSession, base: Path, sql: str, rows: int, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as refusal:
        analyze(spark, parse_pipeline(sql), reader(spark, base), sample_rows=rows)
    assert isinstance(refusal.value, WatersmeetError)


@pytest.mark.variant  # others measure the usual types
def test_values_of_every_type_can_be_measured(spark: SparkSession) -> None:
    """Types that a statistics file does not know are listed as text; NaN and NULL are not listed."""
    columns = {
        "d": "double", "f": "float", "e": "decimal(20,3)", "o": "boolean", "n": "binary", "a": "date",
        "t": "timestamp_ntz", "c": "array<int>",
    }  # fmt: skip
    values = (
        "if(id % 2 = 0, double('NaN'), 1.5D)", "cast(id % 50 as float)", "id % 3 / 4.0", "id % 2 = 0",
        "cast(cast(id % 2 as string) as binary)", "date_add(date'2020-01-01', cast(id % 2 as int))",
        "timestamp_ntz'2020-01-01 00:00:00'", "if(id = 0, null, array(cast(id % 2 as int)))",
    )  # fmt: skip
    declared = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
    ons = " AND ".join(f"x.{name} = y.{name}" for name in columns)
    streams = " ".join(
        f"CREATE STREAM {name} ({declared}, ts TIMESTAMP_NTZ)"
        f" WITH (format = 'parquet', path = '{name}', event_time = 'ts');"
        for name in ("x", "y")
    )
    made = [f"cast({v} as {t}) as {n}" for (n, t), v in zip(columns.items(), values, strict=True)]
    frame = spark.range(200).selectExpr(
        *made, "timestampadd(SECOND, cast(id as int), timestamp_ntz'2020-01-01 00:00:00') as ts"
    )
    bound = parse_pipeline(f"{streams} SELECT x.ts FROM x [RANGE 1 SECOND], y [RANGE 1 SECOND] WHERE {ons}")
    x = analyze(spark, bound, lambda _: frame, sample_rows=200).stream("x")
    assert x.rate_per_s == pytest.approx(1.0)

    def listed(attribute: AttributeStatistics) -> dict[object, float]:
        return dict(attribute.heavy_hitters)

    assert listed(x.attribute("d")) == pytest.approx({1.5: 0.5})
    assert (len(x.attribute("f").heavy_hitters), len(x.attribute("f").histogram)) == (0, 10)
    assert listed(x.attribute("e")) == pytest.approx({0.0: 0.335, 0.25: 0.335, 0.5: 0.33})
    assert listed(x.attribute("o")) == pytest.approx({True: 0.5, False: 0.5})
    assert listed(x.attribute("n")) == pytest.approx({"0": 0.5, "1": 0.5})
    assert listed(x.attribute("a")) == pytest.approx({"2020-01-01": 0.5, "2020-01-02": 0.5})
    assert listed(x.attribute("t")) == pytest.approx({"2020-01-01 00:00:00": 1.0})
    assert listed(x.attribute("c")) == pytest.approx({"[1]": 0.5, "[0]": 0.495})
    assert x.attribute("e").value_bytes == 16
