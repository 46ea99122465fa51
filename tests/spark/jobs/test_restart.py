"""A query that is stopped and resumed gives each answer once; what does not fit its checkpoint is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.mounts import mount
from tests.spark.pipelines import QUERIES, Case, arrive, pipeline_text, random_batches, write_case
from watersmeet.errors import ConfigurationError, DataError, WatersmeetError
from watersmeet.oracle import oracle
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.state_format import describe_change
from watersmeet.session import Session
from watersmeet.spark.jobs.checkpoint import Checkpoint
from watersmeet.spark.jobs.job import Job, RunOptions
from watersmeet.spark.session.environment import FILE_MANAGER, QUICK_FILES
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.storage.folder import Folder
from watersmeet.sql import parse_pipeline

pytestmark = pytest.mark.slow

PARTITIONS = "spark.sql.shuffle.partitions"
ONCE = RunOptions(available_now=True)
TO_THE_END = RunOptions(available_now=True, flush=True)


def _run(spark: SparkSession, case: Case, options: RunOptions = ONCE) -> None:
    Session(spark).run(case.file, checkpoint=case.checkpoint, options=options)


@pytest.fixture
def partitions(spark: SparkSession) -> Iterator[str]:
    """The number of partitions before the test changes it."""
    before = spark.conf.get(PARTITIONS) or ""
    yield before
    spark.conf.set(PARTITIONS, before)


@pytest.mark.variant  # tests/testing/test_restarts.py shows it in process, test_kill.py after kills
def test_stopped_queries_resume_without_loss_or_repetition(spark: SparkSession, tmp_path: Path) -> None:
    selects = [QUERIES[kind] for kind in ("distinct", "rows")]  # plain and aggregate: see test_kill
    case = write_case(tmp_path, selects, random_batches(seed=1, count=4), arrived=3)
    run = Session(spark).start(case.file, checkpoint=case.checkpoint)
    run.follow(until=lambda: len(run.progress) == len(selects))
    run.stop()  # wherever they are: with more to take, most likely within a batch
    arrive(case, [3])
    _run(spark, case, TO_THE_END)
    case.check(spark)


def test_a_query_resumes_with_the_partitions_it_was_started_with(
    spark: SparkSession, tmp_path: Path, partitions: str
) -> None:
    case = write_case(tmp_path, QUERIES["chain"], random_batches(seed=2, count=2), arrived=1)
    _run(spark, case)
    spark.conf.set(PARTITIONS, int(partitions) + 2)
    arrive(case, [1])
    _run(spark, case)
    case.check(spark, flush=False)


def test_a_flush_that_was_cut_short_is_finished_on_resume(spark: SparkSession, tmp_path: Path) -> None:
    """As if killed after the last batch of samples, before the batch in which Spark lets out their groups.

    The checkpoint's name is a pattern, which the end of the input must get past.
    """
    case = write_case(tmp_path, QUERIES["aggregate"], random_batches(seed=4, count=2))
    case = replace(case, checkpoint_name="of [1]")
    _run(spark, case)
    Checkpoint(spark, str(case.checkpoint / "out")).end_input()
    follow_up = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(follow_up, "false")
    try:
        run = Session(spark).start(case.file, checkpoint=case.checkpoint, options=ONCE)
        while run.jobs[0]._query is not None and run.jobs[0]._query.isActive:  # it is not followed
            run.jobs[0]._query.awaitTermination(1)
        run.stop()
    finally:
        spark.conf.unset(follow_up)
    assert len(case.found(spark)) < len(oracle.run(case.query, case.batches, flush=True).rows)
    _run(spark, case)  # it does not say --flush, but there is no way back
    case.check(spark)
    with pytest.raises(ConfigurationError, match="was ended by --flush"):
        _run(spark, case)


@pytest.mark.variant  # the test above finishes a flush, tests/spark/pace a backlog over several batches
def test_what_has_come_when_a_flush_is_finished_is_not_after_its_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As if killed before the end of the input was in a batch; more files come than fit into one."""
    case = write_case(tmp_path, QUERIES["distinct"], random_batches(seed=12, count=3), arrived=1)
    assert "maxFilesPerTrigger" in case.file.read_text()
    _run(spark, case)
    Checkpoint(spark, str(case.checkpoint / "out")).end_input()
    arrive(case, [1, 2])
    _run(spark, case)
    case.check(spark)


def test_flush_goes_with_available_now() -> None:
    with pytest.raises(ConfigurationError, match="--available-now"):
        RunOptions(flush=True)


def test_a_query_may_be_changed_until_it_has_run_and_is_then_refused_with_what_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = write_case(tmp_path, QUERIES["distinct"], random_batches(seed=5, count=1))
    case.file.write_text(case.file.read_text().replace("'parquet', path = 'out'", "'parket', path = 'out'"))
    with pytest.raises(WatersmeetError, match="Did you mean 'parquet'"):
        _run(spark, case)
    case.file.write_text(pipeline_text(QUERIES["plain"]))
    _run(spark, case)
    case.file.write_text(pipeline_text(QUERIES["plain"].replace("s2 [RANGE 3 SECONDS]", "s2 [ROWS 3]")))
    with pytest.raises(ConfigurationError) as refusal:
        _run(spark, case)
    assert str(refusal.value) == (
        "the checkpoint was written by a different query; its state does not fit this one:\n"
        "  window of b: RANGE 3 S in the checkpoint, ROWS 3 in the query\n"
        "  Give the changed query a new checkpoint directory, or restore the old query.\n"
        "  It cannot go on with this state: under windows that count rows, tuples are kept with their "
        "numbers."
    )


def test_a_column_more_in_a_stream_that_counts_rows_is_a_change() -> None:
    """All its columns are kept: they order tuples of one instant."""
    text = pipeline_text(QUERIES["rows"])
    wider = text.replace("s1 (k BIGINT,", "s1 (k BIGINT, extra BIGINT,")
    plans = [plan_physical(parse_pipeline(each).queries[0], 2) for each in (text, wider)]
    change = describe_change(plans[0].fingerprint, plans[1].fingerprint)
    assert "column extra of a: none in the checkpoint, bigint in the query\n" in change


def test_when_a_query_cannot_start_none_of_its_file_is_left_running(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=6, count=1))
    second = (
        "CREATE SINK bad WITH (format = 'parket', path = 'bad');\nINSERT INTO bad SELECT a.k FROM s1 AS a;"
    )
    case.file.write_text(f"{case.file.read_text()}{second}")
    with pytest.raises(WatersmeetError, match="Did you mean 'parquet'"):
        Session(spark).start(case.file, checkpoint=case.checkpoint)
    assert spark.streams.active == []


def _answers(spark: SparkSession, case: Case, select: str) -> DataFrame:
    """The answers as a DataFrame, for people who write it out themselves."""
    session = Session(spark)
    for stream in case.query.streams:
        reader = spark.readStream.schema("k BIGINT, v BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
        session.stream(stream.name, reader.parquet(str(case.folder / stream.name)), event_time="ts")
    return session.sql(select)


def _write(answers: DataFrame, case: Case) -> None:
    writer = answers.writeStream.format("parquet").option("checkpointLocation", str(case.checkpoint))
    writer.trigger(availableNow=True).start(str(case.folder / "out")).awaitTermination()


@pytest.mark.variant  # what is refused is shown with pipeline files below, and in tests/state_format
def test_a_checkpoint_of_ones_own_is_refused_to_another_query_and_other_partitions(
    spark: SparkSession, tmp_path: Path, partitions: str
) -> None:
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=7, count=2), arrived=1)
    _write(_answers(spark, case, QUERIES["plain"]), case)
    arrive(case, [1])
    changed = QUERIES["plain"].replace("s2 [RANGE 3", "s2 [RANGE 30")
    with pytest.raises(PySparkException) as failure:
        _write(_answers(spark, case, changed), case)
    explained = explain_failure(failure.value)
    assert isinstance(explained, DataError)
    assert str(explained) == (
        "the checkpoint was written by a different query; its state does not fit this one:\n"
        "  window of b: RANGE 3 S in the checkpoint, RANGE 30 S in the query\n"
        "  Give the changed query a new checkpoint directory, or restore the old query."
    )
    spark.conf.set(PARTITIONS, int(partitions) + 2)
    with pytest.raises(PySparkException) as failure:
        _write(_answers(spark, case, QUERIES["plain"]), case)
    message = str(explain_failure(failure.value))
    both = f"{partitions} in the checkpoint, {int(partitions) + 2} in the query"
    assert f"  shuffle partitions: {both}\n" in message


@pytest.fixture
def remote(spark: SparkSession, tmp_path: Path) -> str:
    return mount(spark, tmp_path)


@pytest.fixture
def elsewhere(spark: SparkSession, remote: str) -> Iterator[str]:
    """The same, and Hadoop's default for paths without a scheme, in a session as we make them."""
    context: Any = spark.sparkContext._jsc
    settings, key = context.hadoopConfiguration(), "fs.defaultFS"
    before = settings.get(key)
    settings.set(key, remote.removesuffix("data"))
    spark.conf.set(FILE_MANAGER, QUICK_FILES)  # an earlier test may have left it to Spark
    yield remote
    settings.set(key, before)


def file_manager(job: Job) -> str:
    """What Spark renames the files of a running query's checkpoint by."""
    query: Any = job._query
    return str(query._jsq.streamingQuery().offsetLog().fileManager().getClass().getSimpleName())


def test_a_checkpoint_may_be_on_another_file_system_and_takes_no_more_after_a_flush(
    spark: SparkSession, tmp_path: Path, elsewhere: str
) -> None:
    """So may a source and a sink; those without a scheme are on this disk, whatever Hadoop's default."""
    for name in ("s3", "out"):
        (tmp_path / "mounted" / name).mkdir()
        (tmp_path / name).symlink_to(tmp_path / "mounted" / name)
    case = write_case(tmp_path, QUERIES["plain"], random_batches(seed=8, count=2), arrived=1)
    text = case.file.read_text().replace("path = 's3'", "path = 'viewfs:///data/s3'")
    case.file.write_text(text.replace("path = 'out'", f"path = '{elsewhere}/out'"))
    session = Session(spark)
    managers: list[str] = []
    session.run(
        case.file,
        checkpoint=f"{elsewhere}/checkpoint",
        options=ONCE,
        on_progress=lambda job, _: managers.append(file_manager(job)),
    )
    assert set(managers) == {"FileContextBasedCheckpointFileManager"}, "Spark's own choice"
    arrive(case, [1])
    session.run(case.file, checkpoint=f"{elsewhere}/checkpoint", options=TO_THE_END)
    case.check(spark)
    assert sorted(path.name for path in (tmp_path / "mounted").iterdir()) == ["checkpoint", "out", "s3"]
    batches = (tmp_path / "mounted" / "checkpoint").glob("*/spark/offsets/[0-9]*")
    assert len(list(batches)) == 2, "nothing waits for the watermark, so the end of the input needs no batch"
    with pytest.raises(ConfigurationError, match=r"was ended by --flush.*another checkpoint"):
        session.run(case.file, checkpoint=f"{elsewhere}/checkpoint", options=ONCE)


def test_paths_without_a_scheme_are_on_this_disk_whatever_hadoops_default(
    spark: SparkSession, tmp_path: Path, elsewhere: str
) -> None:
    case = write_case(tmp_path, QUERIES["chain"], random_batches(seed=9, count=1))
    managers: list[str] = []
    Session(spark).run(
        case.file,
        checkpoint=case.checkpoint,
        options=ONCE,
        on_progress=lambda job, _: managers.append(file_manager(job)),
    )
    assert set(managers) == {"FileSystemBasedCheckpointFileManager"}, "the quick one"
    case.check(spark, flush=False)
    assert list(case.checkpoint.glob("*/spark/offsets/0"))
    assert not list((tmp_path / "mounted").iterdir())


def test_a_folder_is_the_same_on_this_disk_and_on_another_file_system(
    spark: SparkSession, tmp_path: Path, remote: str
) -> None:
    for path in (str(tmp_path / "own"), (tmp_path / "url").as_uri(), f"{remote}/there"):
        folder = Folder(spark, path)
        assert folder.read("a.json") is None
        assert not folder.holds("*")
        folder.write("a.json", "first")
        folder.write("a.json", "zweite Fassung: ü")
        folder.make("inside")
        assert folder.read("a.json") == "zweite Fassung: ü"
        assert folder.holds("a.*")
        assert folder.holds("inside")
        assert not folder.holds("b.*")
        with pytest.raises(OSError, match=r"."):
            folder.read("inside")
