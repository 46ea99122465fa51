"""The examples as they stand, each answer compared with DuckDB on the same made-up tuples; README's too."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.paths import ROOT
from watersmeet.session import Session
from watersmeet.spark.generator.generator import generate, parse_options
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_run import PipelineRun

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"

HALF_SECOND, QUARTER_HOUR, DAY = 500_000, 900_000_000, 86_400_000_000

EXPECTED = {
    "network_monitoring": f"""
        SELECT a.dest, a.size, b.size, c.size, greatest(a.ts, b.ts, c.ts)
        FROM r1 a JOIN r2 b ON a.dest = b.dest AND abs(a.ts - b.ts) <= {HALF_SECOND}
                  JOIN r3 c ON b.dest = c.dest AND abs(b.ts - c.ts) <= {HALF_SECOND}
                           AND abs(a.ts - c.ts) <= {HALF_SECOND}""",
    "news": f"""
        SELECT list_sort(a.keywords), a.article, b.article, greatest(a.published, b.published)
        FROM press a JOIN wire b ON list_sort(a.keywords) = list_sort(b.keywords)
                                AND abs(a.published - b.published) <= {DAY}""",
    "building_sensors": f"""
        SELECT t.room, t.celsius, h.percent, l.lux, greatest(t.ts, h.ts, l.ts)
        FROM temperature t JOIN humidity h ON t.room = h.room AND abs(t.ts - h.ts) <= {QUARTER_HOUR}
                           JOIN light l ON h.room = l.room AND abs(h.ts - l.ts) <= {QUARTER_HOUR}
                                       AND abs(t.ts - l.ts) <= {QUARTER_HOUR}
        WHERE t.celsius > 30 AND h.percent > 70""",
}


@pytest.fixture(scope="module")
def examples(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, PipelineRun]:
    """Every example over all its tuples, all at once; joins of RANGE windows have then given all answers."""
    session, runs = Session(spark), {}
    for name in EXPECTED:
        file = tmp_path_factory.mktemp(name) / "pipeline.sql"
        shutil.copy(EXAMPLES / name / "pipeline.sql", file)
        runs[name] = session.start(file, options=RunOptions(available_now=True))
    for run in runs.values():
        run.follow()
    return runs


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_gives_the_answers_that_duckdb_gives(
    spark: SparkSession, examples: dict[str, PipelineRun], name: str
) -> None:
    run = examples[name]
    [job], [progress] = run.jobs, run.progress.values()
    with duckdb.connect() as database:
        for stream in job.plan.query.streams:
            assert stream.source is not None
            generator = parse_options(dict(stream.source.options), stream.columns)
            assert generator.rows is not None
            table = pa.Table.from_batches([generate(generator, 0, generator.rows)])
            database.register(stream.name, in_microseconds(table))
        database.register("answers", in_microseconds(spark.read.parquet(str(job.base / "out")).toArrow()))
        database.execute(f"CREATE TABLE expected AS {EXPECTED[name]}")
        [[expected]] = database.execute("SELECT count(*) FROM expected").fetchall()
        assert expected > 1000
        assert database.execute("FROM expected EXCEPT ALL FROM answers").fetchall() == []
        assert database.execute("FROM answers EXCEPT ALL FROM expected").fetchall() == []
    assert (progress.totals.answers, progress.totals.late) == (expected, 0)


def in_microseconds(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            times = table.column(index).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            table = table.set_column(index, field.name, times)
    return table


def test_every_example_has_a_test() -> None:
    pipelines = {path.parent.name for path in EXAMPLES.glob("*/pipeline.sql")}
    in_process = {"changelog", "prices_as_of", "unpaid_orders"}  # in test_as_of.py, test_unpaid_orders.py
    assert pipelines == {*EXPECTED, *in_process, "kafka"}  # whose test is in test_kafka.py: it needs a broker


def code_blocks(file: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(), flags=re.DOTALL)


def write_shop(folder: Path) -> None:
    """Order 1 is paid and shipped in time, 2 paid too little, 3 shipped too late."""
    rows = {
        "orders": [{"id": n, "customer": f"c{n}", "ts": f"2025-01-01T0{n}:00:00Z"} for n in (1, 2, 3)],
        "payments": [
            {"order_id": 1, "amount": 20.5, "ts": "2025-01-01T02:00:00Z"},
            {"order_id": 2, "amount": 10, "ts": "2025-01-01T02:00:01Z"},
            {"order_id": 3, "amount": 30, "ts": "2025-01-01T03:30:00Z"},
        ],
        "shipments": [
            {"order_id": n, "carrier": "post", "ts": f"2025-01-01T0{hour}:00:00Z"}
            for n, hour in ((1, 1), (2, 2), (3, 6))
        ],
    }
    for name, lines in rows.items():
        (folder / "data" / name).mkdir(parents=True)
        (folder / "data" / name / "0.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_the_first_query_of_the_readme(spark: SparkSession, tmp_path: Path) -> None:
    write_shop(tmp_path)
    file = tmp_path / "shop.sql"
    file.write_text(code_blocks("README.md", "sql")[0])
    Session(spark).run(file, options=RunOptions(available_now=True, flush=True))
    [answer] = spark.read.parquet(str(tmp_path / "out" / "fulfilled")).collect()
    assert (answer.id, answer.customer, float(answer.amount), answer.carrier) == (1, "c1", 20.5, "post")


def test_the_python_of_the_readme(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_shop(tmp_path)
    [block] = code_blocks("README.md", "python")
    exec(
        block.replace('"data/', f'"{tmp_path}/data/').replace('"out/', f'"{tmp_path}/out/'), {"spark": spark}
    )
    assert "join type 1: o, p, s" in capsys.readouterr().out
    [answer] = spark.read.parquet(str(tmp_path / "out" / "fulfilled")).collect()
    assert (answer.id, answer.amount) == (1, 20.5)


def test_spark_itself_refuses_the_three_way_windowed_join(spark: SparkSession, tmp_path: Path) -> None:
    """What README says of Spark's cascade, to be noticed when it no longer holds."""
    a, b, c = (
        spark.readStream.format("rate")
        .load()
        .select(F.col("value").alias(f"k_{name}"), F.col("timestamp").alias(f"ts_{name}"))
        .withWatermark(f"ts_{name}", "5 seconds")
        for name in "abc"
    )
    near = "abs(unix_micros({0}) - unix_micros({1})) <= 600000000"
    pairs = a.join(b, F.expr(f"k_a = k_b AND {near.format('ts_a', 'ts_b')}"))
    three = pairs.join(
        c, F.expr(f"k_b = k_c AND {near.format('ts_b', 'ts_c')} AND {near.format('ts_a', 'ts_c')}")
    )
    query = three.writeStream.format("memory").queryName("three").option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException, match="MULTIPLE_EVENT_TIME_COLUMNS"):
        query.start().processAllAvailable()
