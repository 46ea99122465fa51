"""Links that are topics of Kafka: each row counts once, whatever the broker holds twice."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.sites.test_run_site import follow_all
from tests.spark.kafka.broker import Broker
from watersmeet.errors import WatersmeetError
from watersmeet.session import Session
from watersmeet.sites.run_site import SiteRequest, start_site
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.sites.link_record import LinkRecord

pytestmark = [pytest.mark.connectors, pytest.mark.slow]

FINITE = RunOptions(available_now=True, flush=True)
ROWS, KEYS = 3000, 200
SHAPE = "simple, all at oslo"


def pipeline(folder: Path, bootstrap: str, topic: str) -> Path:
    """Two streams, of which one is at the far end of a topic."""
    start = 1_735_689_600_000_000
    for number, name in enumerate(("orders", "paid")):
        (folder / name).mkdir(parents=True)
        rows = range(ROWS)
        table = pa.table(
            {
                "k": pa.array([(n * (7 + number)) % KEYS for n in rows], pa.int64()),
                "note": pa.array([f"{name} {n} " + "." * 300 for n in rows]),
                "ts": pa.array([start + n * 10_000 for n in rows], pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, folder / name / "0.parquet")
    file = folder / "pipeline.sql"
    file.write_text(
        f"""
CREATE SITE paris;
CREATE SITE oslo;
CREATE LINK paris TO oslo WITH (format = 'kafka', bootstrap = '{bootstrap}', topic = '{topic}');
CREATE STREAM orders (k BIGINT, note STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'orders', event_time = 'ts', site = 'paris');
CREATE STREAM paid (k BIGINT, note STRING, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'paid', event_time = 'ts', site = 'oslo');
CREATE SINK out WITH (format = 'parquet', path = 'out');
INSERT INTO out SELECT o.k, o.note, p.note AS paid FROM orders [RANGE 2 S] AS o, paid [RANGE 2 S] AS p
WHERE o.k = p.k;
"""
    )
    file.with_suffix(".stats.json").write_text(
        """{"streams": {"orders": {"rate_per_s": 100, "tuple_bytes": 320, "site": "paris",
  "attributes": {"k": {"distinct": 200}}}, "paid": {"rate_per_s": 100, "tuple_bytes": 320, "site": "oslo",
  "attributes": {"k": {"distinct": 200}}}}}"""
    )
    return file


def request(file: Path, site: str) -> SiteRequest:
    return SiteRequest(file=file, site=site, plan=SHAPE)


def messages(spark: SparkSession, bootstrap: str, topic: str):  # type: ignore[no-untyped-def]
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.read.format("kafka").options(**options).load().select("key", "value")


@pytest.mark.spark
@pytest.mark.variant  # it starts a broker of its own; links that are folders go the same way
def test_each_row_counts_once_although_the_topic_holds_all_of_it_twice(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = "paris-oslo"
    file = pipeline(tmp_path, broker.bootstrap, topic)
    session = Session(spark)
    follow_all([start_site(session, request(file, "paris"), FINITE)])
    sent = messages(spark, broker.bootstrap, topic).toArrow()
    assert sent.num_rows > 3, "rows in several messages, and their ends"
    record = LinkRecord(spark, str(tmp_path / ".watersmeet" / "pipeline" / "sites" / "paris" / "out"), "oslo")
    total = record.read().total
    assert (sum(total.rows.values()), total.messages) == (ROWS, sent.num_rows)
    assert total.framed_bytes == sum(len(v) for name in sent.column_names for v in sent[name].to_pylist())
    again = spark.createDataFrame(sent).write.format("kafka").option("topic", topic)
    again.option("kafka.bootstrap.servers", broker.bootstrap).save()
    follow_all([start_site(session, request(file, "oslo"), FINITE)])
    with duckdb.connect() as database:
        for name in ("orders", "paid", "out"):
            database.execute(f"CREATE VIEW {name} AS FROM read_parquet('{tmp_path}/{name}/*.parquet')")
        expected = (
            "SELECT o.k, o.note, p.note AS paid FROM orders o, paid p "
            "WHERE o.k = p.k AND abs(epoch_us(o.ts) - epoch_us(p.ts)) <= 2000000"
        )
        assert database.execute(f"SELECT count(*) FROM ({expected})").fetchone()[0] > ROWS  # type: ignore[index]
        assert database.execute(f"{expected} EXCEPT ALL FROM out").fetchall() == []
        assert database.execute(f"FROM out EXCEPT ALL {expected}").fetchall() == []


@pytest.mark.spark
@pytest.mark.variant
@pytest.mark.parametrize("key", [b"mine", None])
def test_a_topic_with_foreign_rows_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path, key: bytes | None
) -> None:
    topic = f"foreign-{key is None}"
    file = pipeline(tmp_path, broker.bootstrap, topic)
    frame = spark.createDataFrame([(key, b"1")], "key binary, value binary")
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.option("topic", topic).save()
    with pytest.raises(WatersmeetError, match=f"topic {topic} has a message that is none of a link's"):
        follow_all([start_site(Session(spark), request(file, "oslo"), FINITE)])


@pytest.mark.spark
@pytest.mark.variant
def test_rows_of_two_runs_are_refused(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Paris begins anew with another checkpoint and the old topic."""
    file = pipeline(tmp_path, broker.bootstrap, "two-runs")
    session = Session(spark)
    for checkpoint in ("one", "two"):
        again = SiteRequest(file=file, site="paris", plan=SHAPE, checkpoint=str(tmp_path / checkpoint))
        follow_all([start_site(session, again, FINITE)])
    with pytest.raises(WatersmeetError, match="the link from paris brings rows of two runs"):
        follow_all([start_site(session, request(file, "oslo"), FINITE)])
