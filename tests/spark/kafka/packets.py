"""Packets of three routers in Kafka topics and in files beside them, and what DuckDB makes of the files.

A packet's time is its number in milliseconds, cut to ten of them, so many share one, and moved back by up to
two seconds, so they come out of order. Every router has its own topic of three partitions. Now and then a
message is no packet at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.kafka.broker import Broker

ROUTERS = ("r1", "r2", "r3")
WINDOW_S = 2
DISORDER_S = 2
BAD_EVERY = 97
JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}

SELECT = f"""\
SELECT a.dest, a.size AS size_a, b.size AS size_b, c.size AS size_c, answer_time
FROM r1 [RANGE {WINDOW_S} S] AS a, r2 [RANGE {WINDOW_S} S] AS b, r3 [RANGE {WINDOW_S} S] AS c
WHERE a.dest = b.dest AND b.dest = c.dest"""


@dataclass(frozen=True)
class Packets:
    """So many packets a router, sent in slices that follow each other in time."""

    spark: SparkSession
    broker: Broker
    folder: Path  # of the files that DuckDB reads
    rows: int
    slices: int
    prefix: str  # of the topics

    @property
    def lateness_s(self) -> int:
        """A slice may come in any order, and the one before it not be read to its end in all partitions."""
        return DISORDER_S + 3 * self.rows // self.slices // 1000 + 1

    @property
    def keys(self) -> int:
        return 8000 if self.rows > 100_000 else 3000

    def topic(self, router: str) -> str:
        return f"{self.prefix}-{router}"

    def send(self, number: int) -> None:
        """Sends the slice of this number, of all routers."""
        for router in ROUTERS:
            packets = self._packets(router, number)
            packets.write.parquet(str(self.folder / router), mode="append")
            value = F.to_json(F.struct("dest", "size", "ts"), JSON)
            sent = packets.select(F.col("dest").alias("key"), value.alias("value"))
            bad = packets.where(f"id % {BAD_EVERY} = 0").selectExpr("dest AS key", "'{\"dest\": ' AS value")
            writer = sent.unionAll(bad).coalesce(1).write.format("kafka").option("topic", self.topic(router))
            writer.option("kafka.bootstrap.servers", self.broker.bootstrap).save()

    def bad(self) -> int:
        """How many malformed messages all slices hold."""
        return len(ROUTERS) * -(-self.rows // BAD_EVERY)

    def _packets(self, router: str, number: int) -> DataFrame:
        size = self.rows // self.slices
        ids = self.spark.range(number * size, (number + 1) * size, numPartitions=1)
        moved = f"pmod(xxhash64(id, '{router}', 'moved'), {DISORDER_S * 1_000_000}) div 10000 * 10000"
        return ids.selectExpr(
            "id",
            f"concat('host ', pmod(xxhash64(id, '{router}'), {self.keys})) AS dest",
            f"pmod(xxhash64(id, '{router}', 'size'), 1500) AS size",
            f"timestamp_micros(1735689600000000 + id div 10 * 10000 - {moved}) AS ts",
        )

    def streams(self, more: str = "") -> str:
        """The declarations of the three streams."""
        return "\n".join(
            f"CREATE STREAM {router} (dest STRING, size BIGINT, ts TIMESTAMP)\n"
            f"WITH (format = 'kafka', bootstrap = '{self.broker.bootstrap}', topic = '{self.topic(router)}', "
            f"startingOffsets = 'earliest', event_time = 'ts', lateness = '{self.lateness_s} s'{more});"
            for router in ROUTERS
        )

    def check(self, answers: Any) -> int:
        """Compares a bag of answers, in Arrow and `as_selected`, with DuckDB's; how many there are."""
        near = WINDOW_S * 1_000_000
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            for router in ROUTERS:
                files = str(self.folder / router / "*.parquet")
                columns = "dest, size, epoch_us(ts) AS ts"
                database.execute(f"CREATE TABLE {router} AS SELECT {columns} FROM read_parquet('{files}')")
            database.register("answers", answers)
            database.execute(f"""
                CREATE TABLE expected AS
                SELECT a.dest, a.size, b.size, c.size, greatest(a.ts, b.ts, c.ts)
                FROM r1 a JOIN r2 b ON a.dest = b.dest AND abs(a.ts - b.ts) <= {near}
                          JOIN r3 c ON b.dest = c.dest AND abs(b.ts - c.ts) <= {near}
                                   AND abs(a.ts - c.ts) <= {near}""")
            [[count]] = database.execute("SELECT count(*) FROM expected").fetchall()
            assert count > 0, "a case without answers proves nothing"
            assert database.execute("FROM expected EXCEPT ALL FROM answers LIMIT 3").fetchall() == []
            assert database.execute("FROM answers EXCEPT ALL FROM expected LIMIT 3").fetchall() == []
        return int(count)


def read_topic(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    """All messages of a topic, key and value as text."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.option("subscribe", topic).option("includeHeaders", "true").load()
    return frame.withColumns({"key": F.col("key").cast("string"), "value": F.col("value").cast("string")})


def answers_in_topic(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    """The answers a topic holds with their ids, repeats and all."""
    columns = (
        "answer_id string, dest string, size_a bigint, size_b bigint, size_c bigint, answer_time timestamp"
    )
    parsed = F.from_json("value", columns).alias("answer")
    return read_topic(spark, broker, topic).select(parsed).selectExpr("answer.*")


def as_selected(answers: DataFrame) -> DataFrame:
    """Answers in the form that `Packets.check` compares."""
    return answers.selectExpr("dest", "size_a", "size_b", "size_c", "unix_micros(answer_time) AS t")
