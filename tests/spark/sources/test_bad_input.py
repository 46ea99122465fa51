"""What goes wrong outside: each is said clearly, or counted, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.paths import ROOT
from tests.spark.pipelines import LATENESS_S, QUERIES, SECOND_US, Case, arrive, random_batches, write_case
from tests.spark.run_pipeline import Request
from watersmeet.errors import ConfigurationError, DataError, WatersmeetError
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import Tuple
from watersmeet.session import Session
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_run import PipelineRun

ONCE = RunOptions(available_now=True)
TIMESTAMP = pa.timestamp("us", "UTC")
YEAR_3000_US = 32_503_680_000 * SECOND_US


def _run(spark: SparkSession, case: Case, options: RunOptions = ONCE) -> PipelineRun:
    return Session(spark).run(case.file, checkpoint=case.checkpoint, options=options)


def _late(run: PipelineRun) -> int:
    return sum(progress.totals.late for progress in run.progress.values())


def test_a_file_of_another_schema_stops_the_query_until_it_is_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=40, count=2), arrived=1)
    run = Session(spark).start(case.file, checkpoint=case.checkpoint)
    run.follow(until=lambda: bool(run.progress))
    bad = tmp_path / "s1" / "0001.parquet"
    null_times = pa.nulls(2, pa.timestamp("us"))
    pq.write_table(pa.table({"k": ["not", "numbers"], "v": [1, 2], "ts": null_times}), tmp_path / "draft")
    os.utime(tmp_path / "draft", (1_000_001, 1_000_001))  # Spark passes over files much older than the newest
    (tmp_path / "draft").rename(bad)
    with pytest.raises(DataError) as failure:
        run.follow()
    assert str(failure.value) == (
        f"{bad} does not match its declared schema: column k is declared bigint and the file holds "
        "string. Put one that does in its place, or take it away, then start again with the same "
        "checkpoint: nothing is lost"
    )
    with pytest.raises(DataError, match=r"0001\.parquet does not match its declared schema: column k"):
        _run(spark, case)
    arrive(case, [1])
    _run(spark, case, RunOptions(available_now=True, flush=True))
    case.check(spark)


def test_a_path_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=41, count=1))
    for file in (tmp_path / "s2").iterdir():
        file.unlink()
    (tmp_path / "s2").rmdir()
    with pytest.raises(DataError, match=r"stream s2: there is no \S+/s2 \(path = 's2', relative to"):
        _run(spark, case)


def _garbled(folder: Path) -> None:
    (folder / "watersmeet.json").write_text('{"fingerprint": "half a rec')


def _binary(folder: Path) -> None:
    (folder / "watersmeet.json").write_bytes(b"\xff\xfe\x00")


def _other_json(folder: Path) -> None:
    (folder / "watersmeet.json").write_text(json.dumps({"unlike": "anything"}))


def _folder_instead(folder: Path) -> None:
    (folder / "watersmeet.json").mkdir()


def _missing(folder: Path) -> None:
    """Spark's part is there, ours is not."""


@pytest.mark.parametrize("damage", [_garbled, _binary, _other_json, _folder_instead, _missing])
def test_a_record_that_cannot_be_read_is_not_written_over(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=42, count=1))
    folder = case.checkpoint / "out"
    (folder / "spark" / "offsets").mkdir(parents=True)
    (folder / "spark" / "offsets" / "0").write_text("v1\n")
    damage(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(DataError, match=r"the checkpoint \S+ is damaged: watersmeet\.json cannot be read"):
        _run(spark, case)
    assert sorted(folder.rglob("*")) == before


def test_a_checkpoint_that_cannot_be_made_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=42, count=1))
    case.checkpoint.write_text("a file")
    with pytest.raises(WatersmeetError, match=r"the checkpoint \S+ (?:cannot be written|is damaged)"):
        _run(spark, case)


def test_sparks_part_of_a_damaged_checkpoint_is_named_too(spark: SparkSession, tmp_path: Path) -> None:
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=43, count=1))
    _run(spark, case)
    log = case.checkpoint / "out" / "spark" / "offsets" / "0"
    log.write_text("garbage")
    log.with_name(".0.crc").unlink(missing_ok=True)
    with pytest.raises(WatersmeetError, match=r"the checkpoint is damaged: \S+/offsets/0 cannot be read"):
        _run(spark, case)


def test_late_tuples_and_those_with_no_event_time_or_one_far_ahead_are_counted_and_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = random_batches(seed=44, count=3, keys=6)
    batches[2] = {**batches[2], "s2": [*batches[0]["s2"], *batches[2]["s2"]]}  # it goes back in time
    case = write_case(tmp_path, QUERIES["plain"], batches)
    expected = oracle.run(case.query, batches, flush=True)
    assert expected.late["s2"] >= len(batches[0]["s2"])
    file = tmp_path / "s1" / "0001.parquet"
    written = pq.read_table(file)
    null_times = pa.table(
        {"k": [1, 2, 3], "v": [1, 2, 3], "ts": pa.nulls(3, written.schema.field("ts").type)}
    )
    far_ahead = pa.table({"k": [1, 2], "v": [1, 2], "ts": pa.array([YEAR_3000_US] * 2, TIMESTAMP)})
    wrong = [each.cast(written.schema) for each in (null_times, far_ahead)]
    pq.write_table(pa.concat_tables([written, *wrong]), file)
    os.utime(file, (1_000_001, 1_000_001))  # still the second of its stream
    reported: list[int] = []
    run = Session(spark).run(
        case.file,
        checkpoint=case.checkpoint,
        options=RunOptions(available_now=True, flush=True),
        on_progress=lambda job, progress: reported.extend(item.null_times for item in progress.inputs),
    )
    assert sum(reported) == 3
    assert _late(run) == sum(expected.late.values())
    assert sum(progress.totals.ahead for progress in run.progress.values()) == 2
    case.check(spark)


@pytest.mark.variant  # in process it is shown in tests/testing/test_clocks.py
def test_batches_are_judged_by_the_time_spark_logs_and_runs_by_when_they_began(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark reads the rows, since there is a filter; a run that is over has left its start behind."""
    batches = random_batches(seed=44, count=2, keys=6)
    select = f"{QUERIES['plain']} AND b.v >= 0"
    case = write_case(tmp_path, select, batches, stream_options=", idle_after = '1 hour'", arrived=1)
    far_ahead = Tuple(YEAR_3000_US, {"k": 1, "v": 1})
    given = replace(case, batches=[{**batch, "s2": [*batch["s2"], far_ahead]} for batch in batches])
    arrive(given, [0])
    ahead = []
    for number in (0, 1):
        arrive(given, [number])
        run = _run(spark, case, RunOptions(available_now=True, flush=number == 1))
        ahead += [progress.totals.ahead for progress in run.progress.values()]
        starts = json.loads((case.checkpoint / "out" / "runs.json").read_text())
        logged = [
            json.loads(path.read_text().split("\n")[1])["batchTimestampMs"] * 1000
            for path in (case.checkpoint / "out" / "spark" / "offsets").glob("[0-9]*")
        ]
        assert starts == sorted(starts)
        assert len(starts) > number
        assert starts[0] <= min(logged)
        assert any(start <= max(logged) and start > starts[0] for start in starts) == bool(number)
    assert ahead == [1, 1]
    case.check(spark)


@pytest.mark.variant  # in process it is shown in tests/testing/test_disorder.py
def test_an_idle_stream_is_waited_for_only_so_long(spark: SparkSession, tmp_path: Path) -> None:
    """Places in a stream are settled by the watermark: while it stands, ROWS windows give no answers."""
    batches = random_batches(seed=47, count=4)
    batches[1:] = [{name: batch[name] for name in ("s1", "s2")} for batch in batches[1:]]
    options = ", 'idle_after' = '1 millisecond'"
    case = write_case(tmp_path, QUERIES["rows"], batches, stream_options=options)
    _run(spark, case)
    accepted, _ = oracle.accept(case.query, batches)
    newest = min(max(tuple_.ts for tuple_ in accepted[name]) for name in ("s1", "s2"))
    expected = oracle.emitted(case.query, accepted, newest - LATENESS_S * SECOND_US)
    assert len(expected) > len(oracle.run(case.query, batches).rows)
    assert oracle.bag(case.found(spark)) == oracle.bag(expected)


FULL_DISK = """
set -e
mkdir -p "$CASE/disk" "$CASE/out"
mount -t tmpfs -o size=3m tmpfs "$CASE/disk"
mkdir "$CASE/disk/out" "$CASE/disk/checkpoint"
mount --bind "$CASE/disk/out" "$CASE/out"
head -c "$FILLER" /dev/zero > "$CASE/disk/filler"
if "$@" > "$CASE/first.txt" 2> "$CASE/said.txt"; then exit 3; fi
rm "$CASE/disk/filler"
cp -r "$CASE/disk" "$CASE/kept"
"""


def _namespace() -> list[str]:
    """A command that may mount a small disk that nobody else sees."""
    own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    probe = "mount -t tmpfs tmpfs /mnt"
    if subprocess.run([*own, "sh", "-c", probe], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let a test mount a small disk")
    return own


@pytest.mark.variant  # what is said of it is tested with the failures
def test_a_full_disk_is_said_and_nothing_is_lost_once_there_is_room(
    spark: SparkSession, tmp_path: Path
) -> None:
    own = _namespace()
    case = write_case(tmp_path, QUERIES["aggregate"], random_batches(seed=49, count=5))
    checkpoint = tmp_path / "disk" / "checkpoint"
    request = Request(str(case.file), str(checkpoint), str(tmp_path / "spark.log"))
    done = subprocess.run(
        [*own, "sh", "-c", FULL_DISK, "sh", *request.command],
        cwd=ROOT,
        env={**os.environ, "CASE": str(tmp_path), "FILLER": str(2_700_000)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "batch" in (tmp_path / "first.txt").read_text(), "it did run until the disk was full"
    assert (tmp_path / "said.txt").read_text().startswith("the disk is full: free some space")
    # The small disk is gone with its process; what it held goes where it was, on one with room.
    for folder in (tmp_path / "out", tmp_path / "disk"):
        folder.rmdir()
    (tmp_path / "kept").rename(tmp_path / "disk")
    (tmp_path / "disk" / "out").rename(tmp_path / "out")
    options = RunOptions(available_now=True, flush=True)
    Session(spark).run(case.file, checkpoint=checkpoint, options=options)
    case.check(spark)


def test_settings_beside_a_session_of_ones_own_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="set them on your own"):
        Session(spark, conf={"spark.sql.shuffle.partitions": "2"})
