"""When the runs of a query began: time between two batches counts for idleness only while the query ran.

    DIR/runs.json    the starts of the latest runs, in microseconds, each written before its batches

A batch that is done again must be judged as before, by a run that began later. So starts are kept where the
checkpoint is, and a batch goes by the last start before its own time. Without a folder only the present run
is known; a batch that an earlier run has planned then counts no time at all, and nobody falls idle by it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.query import Stream
from watersmeet.spark.storage.folder import Folder

RUNS = "runs.json"
KEPT = 100  # starts; a batch that is done again is one of the latest runs'


def begin_run(spark: SparkSession, streams: Iterable[Stream], folder: str | None) -> tuple[int, ...]:
    """Notes that a run begins, if some stream may fall idle; the starts that are known, this one last."""
    if all(stream.idle_after_us is None for stream in streams):
        return ()
    began = int(time.time() * 1000) * 1000  # Spark logs the times of batches in milliseconds
    if folder is None:
        return (began,)
    files = Folder(spark, folder)
    try:
        starts = (*_parse(files.read(RUNS)), began)[-KEPT:]
        files.write(RUNS, json.dumps(starts))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(f"the checkpoint {folder} cannot be written: {reason}") from None
    return starts


def _parse(text: str | None) -> tuple[int, ...]:
    """The starts that were noted; a file that is damaged says nothing, which makes no stream idle."""
    try:
        return tuple(int(start) for start in json.loads(text or "[]"))
    except (ValueError, TypeError):
        return ()
