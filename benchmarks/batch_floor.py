"""What a micro-batch costs before anything is joined: the floor under every figure of `watersmeet bench`.

    python benchmarks/batch_floor.py [--workload netmon3] [--rows 5000] [--batches 30] [--warm-up 40]

`files to files` is Spark copying a few rows of the same sources to the same sink. `an empty Python stage`
sends them through a stateful stage that keeps one number and does nothing else. Then our engine, and Spark's
own joins with our settings and with its own. Every line is a process of its own.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, StructField, StructType

from watersmeet.bench.compare import FIRST_BATCHES
from watersmeet.bench.engines import ALL_REPORTS, ENGINES, WARM_UP_S, Outcome, run_spark
from watersmeet.bench.workloads import WORKLOADS, Workload
from watersmeet.query import Query
from watersmeet.session import Session

_NUMBER = StructType([StructField("number", IntegerType())])


class Empty(StatefulProcessor):
    """Keeps one number a partition and answers with it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._kept = handle.getValueState("number", _NUMBER)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        for _ in rows:
            pass
        self._kept.update((int(key[0]),))
        yield pd.DataFrame({"number": [int(key[0])]})

    def close(self) -> None:
        pass


def few_rows(query: Query, sources: Mapping[str, DataFrame]) -> DataFrame:
    parts = [source.where("size < 41").select("size", "ts") for source in sources.values()]
    return reduce(DataFrame.unionAll, parts)


def empty_stage(query: Query, sources: Mapping[str, DataFrame]) -> DataFrame:
    rows = few_rows(query, sources).coalesce(2).selectExpr("spark_partition_id() AS number")
    return rows.groupBy("number").transformWithStateInPandas(Empty(), _NUMBER, "Append", "None")


def plain(build: Callable[[Query, Mapping[str, DataFrame]], DataFrame]) -> Callable[..., Outcome]:
    def run(workload: Workload, folder: Path, warm_up_s: float) -> Outcome:
        session = Session(conf=ALL_REPORTS, log=folder / "floor.log")
        return run_spark("floor", session.spark, workload, folder, warm_up_s, build)

    return run


VARIANTS: dict[str, Callable[..., Outcome]] = {
    "files to files": plain(few_rows),
    "an empty Python stage": plain(empty_stage),
    "ours": ENGINES["ours"],
    "Spark's joins, our settings": ENGINES["cascade"],
    "Spark's joins, its own settings": ENGINES["cascade-untuned"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workload", default="netmon3", choices=list(WORKLOADS))
    parser.add_argument("--rows", type=int, default=5000, help="rows a batch, all streams together")
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, help="seconds")
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    workload = WORKLOADS[asked.workload]
    if asked.variant:
        outcome = VARIANTS[asked.variant](workload, asked.folder, asked.warm_up)
        print(statistics.median(batch.ms for batch in outcome.batches[FIRST_BATCHES:]))
        return
    with tempfile.TemporaryDirectory(prefix="watersmeet-batch-floor-") as folder:
        for number, name in enumerate(VARIANTS):
            place = Path(folder) / str(number)
            workload.write(place, batch_rows=asked.rows, batches=asked.batches)
            command = [sys.executable, __file__, "--variant", name, "--folder", str(place)]
            command += ["--workload", asked.workload, "--warm-up", str(asked.warm_up)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            print(f"{name:32} {float(done.stdout.split()[-1]):6.0f} ms a batch", flush=True)


if __name__ == "__main__":
    main()
