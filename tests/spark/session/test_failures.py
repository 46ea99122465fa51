from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.spark.session.failures import explain_failure, first_line

RESUME = "then start again with the same checkpoint: nothing is lost"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Job aborted: java.io.IOException: No space left on device",
            "the disk is full: free some space where the checkpoint, the sink and Spark's scratch files are, "
            + RESUME,
        ),
        (
            "java.io.IOException: Mkdirs failed to create file:/d/out/_temporary/0 (exists=false)",
            "nothing can be written there: file:/d/out/_temporary/0. Look whether its disk is read-only, and "
            f"who may write to it, {RESUME}",
        ),
        (
            'File "/x/pyspark/sql/streaming/stateful_processor_api_client.py", line 462, in _receive_proto\n'
            '    length = read_int(self.sockfile)\n  File "/x/pyspark/serializers.py", line 604\nEOFError',
            "Spark's state store broke off, as it does where the disk of the checkpoint or of Spark's "
            f"scratch files is full; its log says why. Make room, {RESUME}",
        ),
        (
            "Python worker exited unexpectedly (crashed)",
            f"a Python worker died, killed or out of memory. Give it more room or fewer neighbours, {RESUME}",
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            f"Spark ran out of memory. Give it more, such as --conf spark.driver.memory=4g, {RESUME}",
        ),
        (
            "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.",
            "another run is using this checkpoint. Stop it first, or use another checkpoint",
        ),
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///d/a.parquet. "
            "File does not exist.",
            f"file:///d/a.parquet has disappeared since it was listed. Put it back, {RESUME}; files of a "
            "source must stay until they are read",
        ),
        (
            "Wrong basePath file:/data/new for the root path: file:/data/old/1.parquet",
            "the checkpoint has read file:/data/old/1.parquet for a stream whose path is now file:/data/new. "
            "Put the old path back, or write a pattern that names the old folder and the new one, or start "
            "anew with another checkpoint",
        ),
        (
            "requirement failed: \nBinary file data source expects dataSchema: path,\nbut got: content.",
            "a folder of a Parquet source is named path=..., length=..., content=... or "
            "modificationTime=..., and only Spark reads these: --conf spark.watersmeet.directFiles=false, "
            + RESUME,
        ),
        (
            "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] Cannot load state.",
            "the checkpoint is damaged and cannot be resumed. Put it back from a copy, or start anew with "
            "another checkpoint",
        ),
        (
            "Traceback ...\nwatersmeet.errors.DataError: chunk 7 of bucket 3 is missing\n",
            "chunk 7 of bucket 3 is missing",
        ),
    ],
)
def test_what_a_user_can_act_on_is_said_in_one_sentence(text: str, message: str) -> None:
    assert str(explain_failure(RuntimeError(text))) == message


def test_the_cause_is_found_below_a_general_exception() -> None:
    error = RuntimeError("Task failed while writing rows")
    error.__cause__ = OSError("No space left on device")
    assert "the disk is full" in str(explain_failure(error))


def test_an_error_of_ours_stays_as_it_is() -> None:
    error = DataError("as it was")
    assert explain_failure(error) is error


def test_an_unknown_failure_keeps_the_line_that_says_it() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [DIVIDE_BY_ZERO] Division by "
        "zero. SQLSTATE: 22012 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: ..."
    )
    assert first_line(text) == "Division by zero"
    assert str(explain_failure(RuntimeError(text))) == "Spark failed: Division by zero"


Damage = Callable[[Path], None]


def _metadata_garbled(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_text("garbage")
    (checkpoint / ".metadata.crc").unlink(missing_ok=True)


def _metadata_gone(checkpoint: Path) -> None:
    (checkpoint / "metadata").unlink()


def _offsets_garbled(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "0").write_text("garbage")


def _state_gone(checkpoint: Path) -> None:
    for file in (checkpoint / "state").rglob("*.changelog"):
        file.unlink()


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a query that has run; a copy of its checkpoint is damaged."""
    folder = tmp_path_factory.mktemp("whole")
    _run(spark, folder)
    return folder


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_metadata_garbled, r"the checkpoint is damaged and cannot be resumed\. Put it back"),
        (_metadata_gone, r"the checkpoint file:\S+ has lost its metadata file"),
        (_offsets_garbled, r"the checkpoint is damaged: file:\S+/offsets/0 cannot be read\. Put it back"),
        (_state_gone, r"the checkpoint is damaged and cannot be resumed\. Put it back"),
    ],
)
def test_a_damaged_checkpoint_is_recognised(
    spark: SparkSession, tmp_path: Path, whole: Path, damage: Damage, message: str
) -> None:
    shutil.copytree(whole / "checkpoint", tmp_path / "checkpoint")
    damage(tmp_path / "checkpoint")
    with pytest.raises((PySparkException, Py4JJavaError)) as failure:
        _run(spark, whole, tmp_path / "checkpoint")
    error = explain_failure(failure.value)
    assert isinstance(error, DataError), str(failure.value)
    assert re.match(message, str(error))


def test_an_error_of_ours_in_a_worker_comes_back_as_it_was_raised(
    spark: SparkSession, tmp_path: Path
) -> None:
    def fail(batches: object) -> object:
        from watersmeet.errors import ConfigurationError

        raise ConfigurationError("this worker has no room")

    frame = _source(spark, tmp_path).mapInArrow(fail, "x int")  # type: ignore[arg-type]
    with pytest.raises(PySparkException) as failure:
        _write(frame, tmp_path)
    error = explain_failure(failure.value)
    assert isinstance(error, ConfigurationError)
    assert str(error) == "this worker has no room"


def _source(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of files, with one more than before."""
    (folder / "source").mkdir(exist_ok=True)
    number = len(list((folder / "source").iterdir()))
    pq.write_table(pa.table({"src": [f"{number}-{row}" for row in range(10)]}), folder / f"source/{number}")
    return spark.readStream.schema("src string").parquet(str(folder / "source"))


def _run(spark: SparkSession, folder: Path, checkpoint: Path | None = None) -> None:
    """A query with state, so that there is a state store to damage."""
    _write(_source(spark, folder).dropDuplicates(["src"]), folder, checkpoint)


def _write(frame: DataFrame, folder: Path, checkpoint: Path | None = None) -> None:
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(checkpoint or folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()


def test_what_a_python_worker_has_raised_is_said_and_not_only_that_it_has() -> None:
    trace = (
        "[PYTHON] An exception was thrown from the Python worker:\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "    process()\n"
        "OSError: [Errno 5] Input/output error\n\n"
        "\tat org.apache.spark.Something\n"
    )
    said = str(explain_failure(PySparkException(trace)))
    assert said == (
        "Spark failed: An exception was thrown from the Python worker: OSError: [Errno 5] Input/output error"
    )
