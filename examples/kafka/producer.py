"""Three routers that send their packets to Kafka, as JSON, each to a topic of its own, until Ctrl-C.

    python examples/kafka/producer.py [--bootstrap localhost:9092] [--rate 500] [--rows N] [--conf KEY=VALUE]

Packets are made up, a few of them come out of order, and one message in a hundred is no packet. With --rows
the routers stop after so many packets each.
"""

from __future__ import annotations

import argparse
import tempfile
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet import Session
from watersmeet.spark.generator.data_source import register

ROUTERS = ("r1", "r2", "r3")
PACKET = "to_json(struct(dest, size, ts), map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\"))"
MESSAGE = f"CASE WHEN size % 100 = 7 THEN 'no packet' ELSE {PACKET} END AS value"


def send(spark: SparkSession, router: str, asked: argparse.Namespace, checkpoint: str) -> StreamingQuery:
    """Starts the query that is one router."""
    options = {"stream": router, "rate": str(asked.rate), "keys": "500", "disorder": "200 ms"}
    if asked.rows is not None:
        options["rows"] = str(asked.rows)
    packets = spark.readStream.format("watersmeet-generator").options(**options).load()
    writer = packets.selectExpr("dest AS key", MESSAGE).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", asked.bootstrap).option("topic", f"packets-{router}")
    writer = writer.option("checkpointLocation", f"{checkpoint}/{router}")
    if asked.rows is not None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime="1 second").start()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--rate", type=int, default=500, help="packets a second of each router")
    parser.add_argument("--rows", type=int, help="packets of each router, then end")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    asked = parser.parse_args()
    session = Session(conf=dict(setting.split("=", 1) for setting in asked.conf), formats=["kafka"])
    register(session.spark)
    with tempfile.TemporaryDirectory(prefix="watersmeet-producer-") as checkpoint:
        queries = [send(session.spark, router, asked, checkpoint) for router in ROUTERS]
        print(f"sending to {', '.join(f'packets-{router}' for router in ROUTERS)}; Ctrl-C ends", flush=True)
        try:
            while any(query.isActive for query in queries):
                time.sleep(0.2)
        except KeyboardInterrupt:
            pass
        finally:
            for query in queries:
                query.stop()
            session.spark.stop()


if __name__ == "__main__":
    main()
