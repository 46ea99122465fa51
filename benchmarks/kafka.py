"""How fast three Kafka topics are joined, beside Spark's own cascade of joins reading the same topics.

    python -m benchmarks.kafka send DIR [--rows 300000]      a broker's data in DIR, filled
    python -m benchmarks.kafka compare DIR [--batch-rows 50000]

Messages are JSON, three partitions a topic, out of order, one in a hundred malformed; both engines decode
them by the same code. Each engine runs in a process of its own over all that is there, so many messages of
every topic a batch, into files. The first two batches are warm-up. Answers are compared before speed is.
Needs what the Kafka tests need: jars fetched once (tests/spark/kafka/broker.py).
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from tests.spark.kafka.broker import Broker, jars_setting
from tests.spark.kafka.packets import SELECT, Packets

from watersmeet.bench.engines import IN_MEMORY, IN_ROCKSDB
from watersmeet.session import Session
from watersmeet.spark.compile.cascade import cascade
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.sources.open_stream import read_stream

ENGINES = {"ours": IN_ROCKSDB, "cascade": IN_MEMORY, "cascade-rocksdb": IN_ROCKSDB}
SLICES = 10
WARM_UP = 2


@dataclass(frozen=True)
class Topics:
    """A folder with a broker's data, and what was sent."""

    folder: Path
    rows: int
    ports: list[int]

    @property
    def broker(self) -> Broker:
        return Broker(self.folder / "broker", self.ports)

    def packets(self, session: Session) -> Packets:
        return Packets(session.spark, self.broker, self.folder / "sent", self.rows, SLICES, "bench")


def send(folder: Path, rows: int) -> None:
    broker = Broker(folder / "broker")
    (folder / "topics.json").parent.mkdir(parents=True, exist_ok=True)
    (folder / "topics.json").write_text(json.dumps({"rows": rows, "ports": broker.ports}))
    broker.start()
    session = Session(conf=jars_setting(), log=folder / "send.log")
    try:
        for number in range(SLICES):
            load(folder).packets(session).send(number)
    finally:
        session.spark.stop()
        broker.stop(signal.SIGTERM)


def load(folder: Path) -> Topics:
    return Topics(folder, **json.loads((folder / "topics.json").read_text()))


def run(engine: str, folder: Path, batch_rows: int) -> None:
    """One engine over all topics, in this process; its batches are left in ENGINE.json."""
    out = folder / f"{engine}-{batch_rows}"
    out.mkdir()
    session = Session(
        conf={
            **jars_setting(),
            **ENGINES[engine],
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
        },
        log=out / "spark.log",
    )
    streams = load(folder).packets(session).streams(f", maxOffsetsPerTrigger = '{batch_rows}'")
    file = out / "pipeline.sql"
    file.write_text(
        f"{streams}\nCREATE SINK answers WITH (format = 'parquet', path = 'answers');\n"
        f"INSERT INTO answers {SELECT};"
    )
    if engine == "ours":
        query = session.run(file, options=RunOptions(available_now=True)).jobs[0]._query
    else:
        pipeline = session.read(file)
        sources = {stream.name: read_stream(session.spark, stream, out) for stream in pipeline.streams}
        writer = (
            cascade(pipeline.queries[0], sources).writeStream.format("parquet").trigger(availableNow=True)
        )
        query = writer.option("checkpointLocation", str(out / "checkpoint")).start(str(out / "answers"))
        query.awaitTermination()
    assert query is not None
    reports = [json.loads(report.json) for report in query.recentProgress]
    batches = [(r["numInputRows"], r["durationMs"]["triggerExecution"]) for r in reports if r["numInputRows"]]
    (folder / f"{engine}.json").write_text(json.dumps(batches))
    session.spark.stop()


def answers_of(folder: Path) -> Any:
    """How many answers, and a sum of their hashes that is the same for equal bags."""
    columns = "dest, size_a, size_b, size_c, epoch_us(answer_time)"
    with duckdb.connect() as database:
        files = f"{folder}/answers/*.parquet"
        return database.execute(f"SELECT count(*), sum(hash({columns})) FROM '{files}'").fetchall()[0]


def compare(folder: Path, batch_rows: int) -> None:
    broker = load(folder).broker
    broker.start()
    rates: dict[str, float] = {}
    bags = {}
    try:
        for engine in ENGINES:
            words = ["run", str(folder), "--engine", engine, "--batch-rows", str(batch_rows)]
            subprocess.run([sys.executable, "-m", "benchmarks.kafka", *words], check=True)
            batches = json.loads((folder / f"{engine}.json").read_text())[WARM_UP:]
            rows, ms = (sum(column) for column in zip(*batches, strict=True))
            rates[engine] = 1000 * rows / ms
            bags[engine] = answers_of(folder / f"{engine}-{batch_rows}")
            print(
                f"{engine:<16} {rates[engine]:>9,.0f} messages/s over {len(batches)} batches of "
                f"{rows // len(batches):,}, {ms // len(batches)} ms each; {bags[engine][0]:,} answers",
                flush=True,
            )
    finally:
        broker.stop(signal.SIGTERM)
    if len(set(bags.values())) != 1:
        sys.exit(f"the engines differ in their answers: {bags}")
    faster = max(rate for engine, rate in rates.items() if engine != "ours")
    print(f"ours is {rates['ours'] / faster:.1f} times as fast as the faster cascade, with the same answers")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("action", choices=("send", "compare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=300_000, help="of each topic")
    parser.add_argument("--batch-rows", type=int, default=50_000, help="of each topic")
    parser.add_argument("--engine", choices=ENGINES)
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    if asked.action == "send":
        send(folder, asked.rows)
    elif asked.action == "run":
        run(asked.engine, folder, asked.batch_rows)
    else:
        compare(folder, asked.batch_rows)


if __name__ == "__main__":
    main()
