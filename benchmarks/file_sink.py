"""What a small batch costs in our file sink and in Spark's own, in one run, by turns.

python benchmarks/file_sink.py [--batches 40] [--rows 1000] [--turns 3]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.query import Connector, Sink
from watersmeet.spark.session.environment import new_session
from watersmeet.spark.sinks.write_stream import write_stream

FIRST_BATCHES = 10  # of each turn are not counted

SPARKS, OURS = "Spark's", "ours"

Start = Callable[[DataFrame, Path], StreamingQuery]


def by_us(answers: DataFrame, folder: Path) -> StreamingQuery:
    sink = Sink("out", Connector("parquet", (("path", str(folder / "out")),)))
    return write_stream(
        answers, sink, name="out", checkpoint=folder / "checkpoint", available_now=True, base=folder
    )


def by_spark(answers: DataFrame, folder: Path) -> StreamingQuery:
    writer = answers.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(folder / "out"))


def batch_ms(spark: SparkSession, source: Path, folder: Path, start: Start) -> list[float]:
    """The milliseconds of each counted batch."""
    reader = spark.readStream.schema("k bigint, v double").option("maxFilesPerTrigger", 1)
    query = start(reader.parquet(str(source)).where("v >= 0").repartition(2), folder)
    query.awaitTermination()
    return [each["durationMs"]["triggerExecution"] for each in query.recentProgress][FIRST_BATCHES:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="watersmeet-file-sink-") as scratch:
        folder = Path(scratch)
        (folder / "source").mkdir()
        values = {"k": range(asked.rows), "v": [float(row) for row in range(asked.rows)]}
        for number in range(asked.batches):
            pq.write_table(pa.table(values), folder / "source" / f"{number:04}.parquet")
        spark = new_session(
            "local[2]", "file-sink", {"spark.sql.shuffle.partitions": "2"}, log=folder / "log"
        )
        found: dict[str, list[float]] = {SPARKS: [], OURS: []}
        for turn in range(asked.turns + 1):
            for name, start in ((SPARKS, by_spark), (OURS, by_us)):
                ms = batch_ms(spark, folder / "source", folder / f"{turn}-{name[0]}", start)
                found[name] += ms if turn else []  # the first turn warms up the JVM
        spark.stop()
    base = statistics.median(found[SPARKS])
    for name, each in found.items():
        print(f"{name:8} {statistics.median(each):6.0f} ms a batch, {statistics.median(each) / base:.2f}x")


if __name__ == "__main__":
    main()
