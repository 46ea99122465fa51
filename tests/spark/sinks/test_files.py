"""Files in a folder: every query's answers once, readable by anybody at any time."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.pipelines import QUERIES, random_batches, write_case
from tests.spark.run_pipeline import Request
from tests.spark.sinks.test_sinks import Source, sink
from watersmeet.errors import ConfigurationError
from watersmeet.query import Sink
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sinks.write_stream import write_stream
from watersmeet.spark.storage.tree import LocalTree

pytestmark = pytest.mark.slow

TARGET = sink("parquet", path="out")


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    made = Source(spark, tmp_path / "source")
    made.add()
    return made


def run(source: Source, folder: Path, checkpoint: str, target: Sink = TARGET, name: str = "paid") -> None:
    query = write_stream(
        source.frame(), target, name=name, checkpoint=folder / checkpoint, available_now=True, base=folder
    )
    query.awaitTermination()


def undo_commit(checkpoint: Path, batch: int) -> None:
    """As if the driver had died when the batch was in the sink, and the checkpoint did not know it yet."""
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


def sizes(folder: Path) -> Counter[int]:
    """What a reader who knows nothing of Watersmeet finds, row by row."""
    return Counter(ds.dataset(folder, format="parquet").to_table().column("size").to_pylist())


def test_queries_and_checkpoints_share_a_folder_and_all_readers_see_the_same(
    spark: SparkSession, tmp_path: Path, source: Source
) -> None:
    """Spark's own file sink would skip the batches of the second and the third."""
    for number, (name, checkpoint) in enumerate([("a", "first"), ("a", "second"), ("b", "third")], start=1):
        run(source, tmp_path, checkpoint, name=name)
        assert sizes(tmp_path / "out") == Counter(dict.fromkeys(range(100), 2 * number))
    undo_commit(tmp_path / "third", 1)
    run(source, tmp_path, "third", name="renamed")
    out = tmp_path / "out"
    assert spark.read.parquet(str(out)).count() == 600
    assert duckdb.sql(f"SELECT count(*) FROM '{out}/*.parquet'").fetchall() == [(600,)]
    assert sizes(out).total() == 600
    names = [path.name for path in out.iterdir() if path.name != "_watersmeet"]
    assert Counter(name.partition("-")[0] for name in names) == {"a": 4, "b": 2}
    assert not any("staging" in path.name for path in out.rglob("*"))


@pytest.mark.parametrize("step", ["create", "move"])
def test_a_batch_whose_publication_fails_is_completed_on_resume(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before the record nothing is visible; after it the rest appears on the next start."""
    run(source, tmp_path, "checkpoint")
    before = sizes(tmp_path / "out")
    source.add()

    def fail(*_: object) -> None:
        raise OSError("Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(LocalTree, step, fail)
        with pytest.raises(Exception, match="Input/output error") as failure:
            run(source, tmp_path, "checkpoint")
    assert str(explain_failure(failure.value)) == (
        f"sink out: Input/output error. Look at {tmp_path}/out, then start again with the same checkpoint: "
        "nothing is lost"
    )
    assert sizes(tmp_path / "out") == before
    run(source, tmp_path, "checkpoint")
    assert sizes(tmp_path / "out") == Counter(dict.fromkeys(range(100), 3))


def test_a_batch_that_spark_has_planned_anew_is_not_taken_for_the_one_of_its_number(
    tmp_path: Path, source: Source
) -> None:
    """A copy of the checkpoint is put back that lacks the newest batch, and a file has come since."""
    run(source, tmp_path, "c")
    shutil.copytree(tmp_path / "c", tmp_path / "copy")
    source.add()
    run(source, tmp_path, "c")
    before = sizes(tmp_path / "out")
    shutil.rmtree(tmp_path / "c")
    (tmp_path / "copy").rename(tmp_path / "c")
    source.add()
    with pytest.raises(StreamingQueryException) as failure:
        run(source, tmp_path, "c")
    said = str(explain_failure(failure.value))
    assert re.search(r"holds another batch \d of the same checkpoint, as if an older copy", said)
    assert sizes(tmp_path / "out") == before


def test_a_batch_without_answers_leaves_no_file_and_other_formats_keep_their_options(
    tmp_path: Path, source: Source
) -> None:
    none = source.frame().where("size < 0")
    write_stream(
        none, TARGET, name="none", checkpoint=tmp_path / "none", available_now=True, base=tmp_path
    ).awaitTermination()
    assert list(LocalTree(tmp_path).files("out")) == []
    run(source, tmp_path, "json", sink("json", path="json", compression="gzip"))
    assert len(list((tmp_path / "json").glob("paid-*.json.gz"))) == 2
    run(source, tmp_path, "csv", sink("CSV", path="csv", header="true"))
    rows = [path.read_text().splitlines() for path in (tmp_path / "csv").glob("*.csv")]
    assert [lines[0] for lines in rows] == ["dest,size"] * 2
    assert sum(len(lines) - 1 for lines in rows) == 200


def test_a_folder_of_sparks_own_file_sink_is_refused_before_anything_runs(
    tmp_path: Path, source: Source
) -> None:
    by_spark = source.frame().writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "s"))
    by_spark.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    with pytest.raises(ConfigurationError, match="Name another folder, or move the old files away"):
        run(source, tmp_path, "checkpoint")
    assert not (tmp_path / "checkpoint").exists()
    shutil.rmtree(tmp_path / "out" / "_spark_metadata")
    run(source, tmp_path, "checkpoint")
    assert sizes(tmp_path / "out").total() == 400


def test_the_record_of_a_batch_says_what_was_published(tmp_path: Path, source: Source) -> None:
    run(source, tmp_path, "checkpoint")
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"][:8]
    record = json.loads((tmp_path / "out" / "_watersmeet" / query / "batch-1-0").read_text())
    [(_, published)] = record["files"]
    assert published == f"paid-{query}-1-0.snappy.parquet"
    assert pq.read_table(tmp_path / "out" / published).num_rows == 100


# Of a batch with two files: the record, a file, another one, the staging folder.
@pytest.mark.parametrize("step", [pytest.param(0, marks=pytest.mark.variant), 2])
def test_a_driver_killed_at_a_step_of_its_sink_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, step: int
) -> None:
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=8, count=2))
    request = Request(str(case.file), str(case.checkpoint), str(tmp_path / "log"), flush=False)
    command = [sys.executable, "-m", "tests.spark.sinks.run_and_die", "files", str(step), request.command[-1]]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list((tmp_path / "out").glob("*.parquet"))) == max(step - 1, 0)
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=RunOptions(available_now=True))
    case.check(spark, flush=False)
