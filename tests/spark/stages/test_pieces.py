"""A large part of a batch is joined piece by piece as its files are read, under one watermark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.kernel import JoinBucket
from watersmeet.plan.physical import plan_physical
from watersmeet.query import Column, Stream
from watersmeet.spark.compile.tasks import JoinTasks
from watersmeet.spark.exchange.messages import FileName
from watersmeet.spark.stages.join_stage import JoinStage
from watersmeet.spark.tuning import Tuning
from watersmeet.sql import bind_query
from watersmeet.testing import Setup
from watersmeet.testing.setup import query_dataflow

ROWS, PIECE = 5000, 20_000
COLUMNS = (Column("k", "bigint"), Column("v", "bigint"), Column("ts", "timestamp"))


def write_file(folder: Path, name: str) -> str:
    rows = np.arange(ROWS)
    times = pa.array(rows * 1000, pa.timestamp("us", "UTC"))
    file = folder / f"{name}.parquet"
    pq.write_table(pa.table({"k": rows % 1000, "v": rows, "ts": times}), file, row_group_size=500)
    return file.as_uri()


def test_files_larger_than_a_piece_are_joined_as_they_are_read(tmp_path: Path) -> None:
    streams = [Stream(name, COLUMNS, "ts") for name in ("s1", "s2")]
    query = bind_query(
        "SELECT a.v, b.v AS w FROM s1 [RANGE 1 MINUTE] AS a, s2 [RANGE 1 MINUTE] AS b WHERE a.k = b.k",
        streams,
    )
    tuning = Tuning(piece_bytes=PIECE, chunk_rows=100, read_rows=100)
    setup = Setup(partitions=1, direct_files=True, tuning=tuning)
    tasks = query_dataflow(plan_physical(query, 1, None, "shares"), setup, tmp_path / "routing").tasks.join
    assert isinstance(tasks, JoinTasks)
    stage = tasks.stages[-1].processor
    assert isinstance(stage, JoinStage)
    bucket = JoinBucket(stage.plan.bucket)
    work, label = stage.begin(bucket, 0, 0.0), stage.plan.labels[0]
    names = [FileName(label, number, write_file(tmp_path, f"s{number + 1}")) for number in (0, 1)]
    pieces, answers, watermarks = [], 0, []
    for batch in work.read(iter(names)):
        pieces.append(sum(tuples.nbytes for tuples in batch.tuples.values()))
        watermarks.append(bucket.join.watermark)
        answers += sum(table.num_rows for table in bucket.step(batch))
    assert len(set(watermarks)) == 1
    assert len(pieces) > 5
    assert max(pieces) < 1.5 * PIECE
    assert answers == 1000 * 5 * 5
