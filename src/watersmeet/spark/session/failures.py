"""Spark's exceptions in one clear sentence each, with what to do.

Spark reports a failed query as a long text about its own plan; what went wrong is somewhere in the chain of
causes. Here the chain is searched for the failures a user can do something about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]

from watersmeet.errors import (
    ConfigurationError,
    DataError,
    LinkError,
    MemoryShortageError,
    TransientError,
    WatersmeetError,
)

RESUME = "then start again with the same checkpoint: nothing is lost"
JVM_GONE = f"Spark's process has ended: it was killed, or it crashed. Look at its log, {RESUME}"
NO_BROKER = "Kafka does not answer"
_MAX_CAUSES = 20
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n|\n)*([^\s][^\n]*)")
_OURS = r"(?P<message>[^\n]+(?:\n {2}[^\n]+)*)"  # a message of ours goes on in lines that are set in


@dataclass(frozen=True)
class Failure:
    """A failure known by a pattern in its text; `advice` may use the pattern's groups."""

    pattern: str
    advice: str
    error: type[WatersmeetError] = DataError

    def explain(self, text: str) -> WatersmeetError | None:
        found = re.search(self.pattern, text, re.DOTALL)
        if found is None:
            return None
        return self.error(self.advice.format(**{k: v.strip() for k, v in found.groupdict("").items()}))


# In order: a specific failure before the general one it would also match.
FAILURES = (
    Failure(rf"watersmeet\.errors\.ConfigurationError: {_OURS}", "{message}", ConfigurationError),
    Failure(rf"watersmeet\.errors\.MemoryShortageError: {_OURS}", "{message}", MemoryShortageError),
    Failure(rf"watersmeet\.errors\.TransientError: {_OURS}", "{message}", TransientError),
    Failure(rf"watersmeet\.errors\.LinkError: {_OURS}", "{message}", LinkError),
    Failure(rf"watersmeet\.errors\.\w+: {_OURS}", "{message}"),
    Failure(
        r"No space left on device|Disk quota exceeded",
        "the disk is full: free some space where the checkpoint, the sink and Spark's scratch files are, "
        f"{RESUME}",
    ),
    Failure(
        r"STREAMING_CHECKPOINT_MISSING_METADATA_FILE\] Checkpoint location (?P<path>\S+)",
        "the checkpoint {path} has lost its metadata file, so it cannot be resumed. "
        "Put the file back from a copy, or start anew with another checkpoint",
    ),
    Failure(
        r"(?:Failed to read log file|Checksum error:) (?P<file>\S+?)(?:\.)? ",
        "the checkpoint is damaged: {file} cannot be read. Put it back from a copy, "
        "or start anew with another checkpoint",
    ),
    Failure(
        r"MALFORMED_LOG_FILE|Incomplete log file|"
        r"CANNOT_LOAD_STATE_STORE|CANNOT_READ_\w*STATE|INVALID_CHANGE_LOG|CHECKPOINT_FILE_CHECKSUM|"
        r"StateStore[^\n]*does not exist|org\.apache\.hadoop\.fs\.ChecksumException|"
        r"StreamMetadata.*?Json|JsonParseException.*?StreamMetadata",
        "the checkpoint is damaged and cannot be resumed. Put it back from a copy, "
        "or start anew with another checkpoint",
    ),
    Failure(
        r"PARQUET_COLUMN_DATA_TYPE_MISMATCH\].*?reading file (?P<file>\S+)\. .*?column \[(?P<column>.*?)\]\. "
        r"Expected Spark type (?P<declared>.*?), actual Parquet type (?P<actual>\w+)",
        "{file} does not match its declared schema: column {column} is declared {declared} and the file "
        f"holds {{actual}}. Put one that does in its place, or take it away, {RESUME}",
    ),
    Failure(
        r"reading file (?P<file>\S+?)\.\s.*(?:MALFORMED_RECORD_IN_PARSING|BadRecordException)",
        "{file} holds a record that does not match its declared schema. Correct the file or the declaration "
        f"(or let such records through as NULL with 'option.mode' = 'PERMISSIVE'), {RESUME}",
    ),
    Failure(
        r"MALFORMED_RECORD_IN_PARSING",
        "a record does not match the declared schema. Correct the declaration, or let such records through "
        f"as NULL with 'option.mode' = 'PERMISSIVE', {RESUME}",
    ),
    Failure(
        r"reading file (?P<file>\S+?)\.\s.*(?:is not a Parquet file|CANNOT_READ_FILE_FOOTER|not read footer)",
        "{file} is damaged or not of the declared format. Take it away or put a whole one in its place, "
        f"{RESUME}",
    ),
    Failure(
        r"(?:FILE_NOT_EXIST|FileNotFoundException).*?(?P<file>file:\S+?|/\S+?)(?=\.?\s| does not)",
        "{file} has disappeared since it was listed. Put it back, "
        f"{RESUME}; files of a source must stay until they are read",
    ),
    Failure(
        r"Wrong basePath (?P<path>\S+) for the root path: (?P<file>\S+)",
        "the checkpoint has read {file} for a stream whose path is now {path}. Put the old path back, or "
        "write a pattern that names the old folder and the new one, or start anew with another checkpoint",
        ConfigurationError,
    ),
    Failure(
        r"Binary file data source expects dataSchema",
        "a folder of a Parquet source is named path=..., length=..., content=... or modificationTime=..., "
        f"and only Spark reads these: --conf spark.watersmeet.directFiles=false, {RESUME}",
    ),
    Failure(
        r"FAILED_READ_FILE.*?reading file (?P<file>\S+?)\.\s",
        f"{{file}} cannot be read. Look whether it is whole, readable and of the declared format, {RESUME}",
    ),
    Failure(
        r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_OPERATOR_OUT_OF_ORDER|"
        r"STREAMING_STATEFUL_OPERATOR_(?:NOT_MATCH|MISMATCH)|STATE_STORE_\w*SCHEMA",
        "the checkpoint was written by another query. Run the query it belongs to, or use another checkpoint",
    ),
    Failure(
        r"CONCURRENT_QUERY|CONCURRENT_STREAM_LOG_UPDATE|already active with the same id",
        "another run is using this checkpoint. Stop it first, or use another checkpoint",
    ),
    Failure(  # what Spark's side of it ended by, such as an FSError, is in Spark's log alone
        r"stateful_processor\w*\.py.*\b(?:EOFError|BrokenPipeError|ConnectionResetError)",
        "Spark's state store broke off, as it does where the disk of the checkpoint or of Spark's scratch "
        f"files is full; its log says why. Make room, {RESUME}",
    ),
    Failure(
        r"Python worker exited unexpectedly",
        f"a Python worker died, killed or out of memory. Give it more room or fewer neighbours, {RESUME}",
        MemoryShortageError,
    ),
    Failure(
        r"Java heap space|GC overhead limit exceeded|OutOfMemoryError",
        f"Spark ran out of memory. Give it more, such as --conf spark.driver.memory=4g, {RESUME}",
        MemoryShortageError,
    ),
    Failure(
        r"Python worker failed to connect back",
        "a Python worker did not start in time, which happens on a busy machine. Run fewer queries at once, "
        f"or give it more cores, {RESUME}",
        TransientError,
    ),
    Failure(
        r"UnknownTopicOrPartitionException",
        f"there is no such Kafka topic. Correct its name or create it (a first message may do so), {RESUME}",
    ),
    Failure(
        r"Timed out waiting for a node assignment|No resolvable bootstrap urls|"
        r"kafka\.common\.errors\.TimeoutException|DisconnectException",
        f"{NO_BROKER}. See whether its brokers run, whether bootstrap names them, and whether the "
        f"security settings are theirs, {RESUME}",
    ),
    Failure(
        r"Mkdirs failed to create (?P<path>\S+)",
        "nothing can be written there: {path}. Look whether its disk is read-only, and who may write to it, "
        f"{RESUME}",
    ),
    Failure(
        r"failOnDataLoss",
        "the source no longer has data that was not read yet (its retention is too short). To go on without "
        "it, set 'option.failOnDataLoss' = 'false'; the answers with that data are lost",
    ),
    Failure(
        r"Permission denied|AccessControlException",
        f"a file or folder may not be read or written by this user. Look at the permissions, {RESUME}",
    ),
    Failure(
        r"(?P<parent>Parent path is not a directory: \S+)",
        "a path goes through something that is not a folder. {parent}",
        ConfigurationError,
    ),
)


def explain_failure(exception: BaseException) -> WatersmeetError:
    """The failure as one sentence; an exception that is not known keeps its own first line."""
    if isinstance(exception, WatersmeetError):
        return exception
    if _is_jvm_gone(exception):
        return DataError(JVM_GONE)
    messages = list(_chain(exception))
    text = "\n".join(messages)
    for failure in FAILURES:
        if error := failure.explain(text):
            return error
    return WatersmeetError(f"Spark failed: {first_line(messages[0])}")


def _is_jvm_gone(exception: BaseException) -> bool:
    """Whether the program has lost its JVM: what the JVM itself says of a failed call has a trace."""
    if type(exception) is Py4JError:
        text = str(exception)
        return text.startswith("An error occurred while calling") and "Trace:" not in text
    return isinstance(exception, ConnectionError | Py4JNetworkError)


def first_line(message: str) -> str:
    """What a Spark message says before it goes on about plans and stack traces."""
    text = message.split("=== Streaming Query ===")[0]
    text = re.sub(r"^.*?terminated with exception: ", "", text, flags=re.DOTALL)
    text = re.sub(r"^An error occurred while calling \S+\s*: ", "", text)
    text = re.sub(r"^(?:[\w$]+\.)+(\w+(?:Exception|Error)): ", "", text)
    line = text.strip().split("\n")[0]
    if (raised := _RAISED.findall(text)) and line.rstrip().endswith(":"):
        line = f"{line.strip()} {raised[-1]}"  # what the worker says comes after the way it took
    return (
        re.sub(r"(?:^\[[A-Z_0-9.]+\] )|(?: SQLSTATE: \w+)", "", line).strip().rstrip(".") or "no reason given"
    )


def _chain(exception: BaseException) -> Iterator[str]:
    """The messages from an exception down to its first cause, on the Python side and in the JVM."""
    current: Any = exception
    for _ in range(_MAX_CAUSES):
        if current is None:
            return
        if isinstance(current, Py4JJavaError):
            yield from _java_chain(current.java_exception)
            return
        yield str(current).split("=== Streaming Query ===")[0]
        # PySpark keeps what the JVM says under these names; a task's own failure is in the stack trace alone.
        yield getattr(current, "_stackTrace", "")
        current = getattr(current, "_cause", None) or current.__cause__


def _java_chain(exception: Any) -> Iterator[str]:
    for _ in range(_MAX_CAUSES):
        if exception is None:
            return
        where = exception.getStackTrace()
        # A JSON error does not say whose JSON it was, but the stack does.
        yield "\n".join([exception.toString(), *(str(frame) for frame in list(where)[:40])])
        exception = exception.getCause()
