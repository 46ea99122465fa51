"""A query beside a served dataflow over Kafka: it begins with the messages after those of the dataflow."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from tests.spark.kafka.broker import Broker
from tests.spark.kafka.packets import WINDOW_S, Packets
from tests.spark.multiquery.test_failing_queries import serve_to_end
from watersmeet.serve.create_dataflow import CreationOptions, create_dataflow
from watersmeet.serve.registry.changes import ChangePlanner
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import require_record
from watersmeet.serve.registry.requests import Submit, send
from watersmeet.serve.spark_engine import AnswerCheck
from watersmeet.spark.multiquery.check import SparkCheck

pytestmark = [pytest.mark.connectors, pytest.mark.slow]

JOINED = f"AS a, r2 [RANGE {WINDOW_S} S] AS b WHERE a.dest = b.dest"
SELECT = "INSERT INTO out SELECT a.dest, a.size AS size_a, b.size AS size_b FROM"
DECLARED = """
CREATE VIEW large AS SELECT dest, size, ts FROM r1 WHERE size > 700;
CREATE SINK out WITH (format = 'parquet', path = 'out');
"""


@pytest.mark.variant  # files show the same by default
def test_a_query_beside_a_dataflow_begins_with_the_messages_that_come_after_it(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    packets = Packets(spark, broker, tmp_path, rows=4000, slices=2, prefix="beside")
    packets.send(0)
    file = tmp_path / "flow.sql"
    file.write_text(
        f"{packets.streams()}{DECLARED}-- name: shared\n{SELECT} r1 [RANGE {WINDOW_S} S] {JOINED};\n"
    )
    flow = RegistryFolder(tmp_path / "flow")
    create_dataflow(
        flow,
        CreationOptions(file, levels=1),
        partitions=2,
        infer=lambda stream: (),
        planner=ChangePlanner(AnswerCheck(SparkCheck(spark))),
        newest=lambda checkpoint: -1,
    )
    serve_to_end(spark, flow)
    send(flow, Submit((("beside", f"{SELECT} large [RANGE {WINDOW_S} S] {JOINED}"),)))
    packets.send(1)
    serve_to_end(spark, flow)
    record = require_record(flow)
    assert record.failed == {}
    assert [query.name for query in record.beside.values()] == ["beside"]

    def answers(name: str) -> set[tuple[object, ...]]:
        found = spark.read.parquet(str(tmp_path / "out")).where(f"query = '{name}'")
        return {tuple(row) for row in found.groupBy("dest", "size_a", "size_b").count().collect()}

    assert answers("shared") == expected(tmp_path, "true")
    late = expected(tmp_path, "a.id >= 2000 AND b.id >= 2000 AND a.size > 700")
    assert late, "a case without answers proves nothing"
    assert answers("beside") == late < expected(tmp_path, "a.size > 700")


def expected(folder: Path, condition: str) -> set[tuple[object, ...]]:
    """The answers that DuckDB gives, with how often there is each."""
    r1, r2 = (f"read_parquet('{folder / router}/*.parquet')" for router in ("r1", "r2"))
    near = f"abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {WINDOW_S * 1_000_000}"
    with duckdb.connect() as database:
        rows = database.execute(
            f"SELECT a.dest, a.size, b.size, count(*) FROM {r1} a JOIN {r2} b ON a.dest = b.dest AND {near} "
            f"WHERE {condition} GROUP BY ALL"
        ).fetchall()
    return {tuple(row) for row in rows}
