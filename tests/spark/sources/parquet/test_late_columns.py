"""Wide text that is read after the join is the text that Spark reads, whichever task named its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from watersmeet.kernel import REF, TS, InputLayout
from watersmeet.query import range_us
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.sources.parquet.late_columns import LateColumns, late_columns, refer
from watersmeet.spark.sources.parquet.rows import FileColumn
from watersmeet.spark.tuning import DEFAULT


def test_only_wide_text_of_many_rows_and_few_buckets_comes_late(tmp_path: Path) -> None:
    columns = [
        FileColumn("k", "k", "string", is_key=True),
        FileColumn("note", "note", "string"),
        FileColumn("n", "n", "bigint"),
    ]
    uris = []
    for name, rows, width in (
        ("wide", DEFAULT.late_rows, 300),
        ("narrow", DEFAULT.late_rows, 100),
        ("few", 100, 300),
    ):
        path = tmp_path / f"{name}.parquet"
        letters = np.random.default_rng(0).integers(97, 123, (rows, width), dtype=np.uint8)
        notes = [line.tobytes().decode() for line in letters]
        pq.write_table(pa.table({"k": notes, "note": notes, "n": range(rows)}), path)
        uris.append(f"file:{path}")
    assert late_columns(uris[:1], columns, DEFAULT.late_buckets) == (columns[1],)
    assert late_columns(uris[:2], columns, DEFAULT.late_buckets) == ()
    assert late_columns(uris[2:], columns, DEFAULT.late_buckets) == ()
    assert late_columns(uris[:1], columns, DEFAULT.late_buckets + 1) == ()
    assert late_columns(uris[:1] * (DEFAULT.late_files + 1), columns, DEFAULT.late_buckets) == ()
    assert late_columns(uris[:1], [columns[0], columns[2]], DEFAULT.late_buckets) == ()


def test_references_over_several_tasks(tmp_path: Path) -> None:
    """Each task numbers its files from 0; some may have sent the text itself."""
    uris = []
    for number in range(3):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"note": [f"{number}/{row}" for row in range(4)]}), path)
        uris.append(f"file:{path}")
    layout = InputLayout("a", range_us(1), ((0, "k"),), ("note",))

    def sent(task: list[str]) -> list[pa.RecordBatch]:
        narrow = pa.record_batch({TS: pa.array([1, 2, 3, 4]), "k": pa.array([5, 6, 7, 8])})
        return [part for n, _ in enumerate(task) for part in refer(iter([narrow]), n, task)]

    late = LateColumns({"a": (FileColumn("note", "note", "string"),)})
    chunks = late.admit(layout, [*sent(uris[:2]), *sent(uris[2:])])
    refs = np.concatenate([np.asarray(one.column(REF)) for one in chunks])
    assert late.fetch("a", ["note"], refs[[9, 0, 7, 0]])[0].to_pylist() == ["2/1", "0/0", "1/3", "0/0"]
    assert late.fetch("a", ["note"], refs[:0])[0].to_pylist() == []
    whole = pa.record_batch({TS: pa.array([9]), "k": pa.array([9]), "note": pa.array(["here"])})
    mixed = LateColumns({"a": (FileColumn("note", "note", "string"),)}).admit(
        layout, [*sent(uris[2:]), whole]
    )
    assert pa.concat_batches(mixed).column("note").to_pylist() == ["2/0", "2/1", "2/2", "2/3", "here"]


def test_wide_text_comes_through_spark_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that is wide enough; the same in small, batch after batch, is tested in process."""
    random, rows = np.random.default_rng(1), DEFAULT.late_rows
    tables, statements = {}, []
    for name in ("s1", "s2"):
        (tmp_path / name).mkdir()
        letters = random.integers(97, 123, (rows, DEFAULT.late_bytes + 50), dtype=np.uint8)
        columns = {
            "k": random.integers(0, 2 * rows, rows),
            "note": [line.tobytes().decode() for line in letters],
            "ts": pa.array(np.arange(rows), pa.timestamp("us", tz="UTC")),
        }
        pq.write_table(pa.table(columns), tmp_path / name / "one.parquet")
        tables[name] = pd.DataFrame({column: columns[column] for column in ("k", "note")})
        statements.append(
            f"CREATE STREAM {name} (k bigint, note string, ts timestamp) WITH (format = 'parquet', "
            f"path = '{tmp_path / name}', event_time = 'ts');"
        )
    statements.append(f"CREATE SINK out WITH (format = 'parquet', path = '{tmp_path / 'answers'}');")
    statements.append(
        "INSERT INTO out SELECT a.note AS x, b.note AS y FROM s1 [RANGE 2 SECONDS] AS a, "
        "s2 [RANGE 2 SECONDS] AS b WHERE a.k = b.k;"
    )
    file = tmp_path / "pipeline.sql"
    file.write_text("\n".join(statements))
    Session(spark).run(file, options=RunOptions(available_now=True))
    expected = tables["s1"].merge(tables["s2"], on="k")
    found = sorted(map(tuple, spark.read.parquet(str(tmp_path / "answers")).collect()))
    assert len(found) > 1000
    assert found == sorted(zip(expected.note_x, expected.note_y, strict=True))
