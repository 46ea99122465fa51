"""Hot values in the engine: which may be spread, where the tables are, that all tasks go by one of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.kernel import NO_HOT_VALUES, Grid, HotTable, JoinLayout, Summary, may_spread, summarise
from watersmeet.kernel.columns.hashing import Hashes
from watersmeet.spark.exchange.routing_files import RoutingFiles
from watersmeet.spark.storage.paths import local_path
from watersmeet.spark.worker.task_facts import known_batch, query_id, run_id

SWITCH = "spark.watersmeet.hotKeys"  # a session's setting: `false` lets hot values cool, and no more heat
MIN_ROWS = "spark.watersmeet.hotKeys.minRows"  # tuples to be seen before any value is taken for hot
FOLDER = "spark.watersmeet.hotKeys.folder"  # for the tables, where a checkpoint is not on a shared disk
DEFAULT_MIN_ROWS = 1000
IN_CHECKPOINT = "routing"


@dataclass(frozen=True)
class HotKeys:
    """What pack and the first bucket must know; it travels to the workers with every task."""

    folder: str
    plan: str  # tells apart two plans that run in one streaming query
    classes: tuple[int, ...]  # those whose values may be spread
    is_on: bool = True
    min_rows: int = DEFAULT_MIN_ROWS

    def files(self) -> RoutingFiles | None:
        """The tables of the streaming query whose task this is."""
        query = query_id()
        return RoutingFiles(Path(self.folder) / f"{query}-{self.plan}") if query else None

    def table(self) -> HotTable:
        """The table in force in this task's micro-batch."""
        files = self.files()
        return files.read(batch_id()) if files else NO_HOT_VALUES


def batch_id() -> int:
    """The number of the micro-batch whose task this is."""
    number = known_batch()
    if number is None:
        raise DataError("a task of a streaming query does not know the number of its batch")
    return number


@dataclass(frozen=True)
class HotKeySettings:
    """How a session treats hot values; the folder is on a disk that all workers see."""

    folder: str
    is_on: bool = True
    min_rows: int = DEFAULT_MIN_ROWS


def read_hot_key_settings(spark: SparkSession, checkpoint: str | None) -> HotKeySettings | None:
    """The settings of a session for a query with this checkpoint; None where no value can be spread.

    Tables are files on a disk that all workers see, in the checkpoint unless a setting names a folder. Where
    no folder is set, and the checkpoint is not known here or is on another file system, values stay at home.
    """
    folder = spark.conf.get(FOLDER, "") or (checkpoint and f"{checkpoint}/{IN_CHECKPOINT}")
    path = local_path(folder) if folder else None
    if path is None:
        return None
    text = (spark.conf.get(SWITCH, "true") or "").lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"{SWITCH} is {text!r}: write true or false")
    rows = spark.conf.get(MIN_ROWS, str(DEFAULT_MIN_ROWS)) or ""
    if not rows.isdecimal():
        raise ConfigurationError(f"{MIN_ROWS} is {rows!r}: write a whole number of tuples")
    return HotKeySettings(str(path.absolute()), text == "true", int(rows))


def plan_hot_keys(
    layout: JoinLayout, grid: Grid, fingerprint: str, settings: HotKeySettings | None
) -> HotKeys | None:
    """How a query treats hot values; None where it cannot spread any."""
    classes = tuple(cls for cls, share in enumerate(grid.shares) if share > 1 and may_spread(layout, cls))
    if not classes or settings is None:
        return None
    name = hashlib.blake2b(fingerprint.encode(), digest_size=4).hexdigest()
    return HotKeys(settings.folder, name, classes, settings.is_on, settings.min_rows)


def summary_size(grid: Grid) -> int:
    """How many values a summary counts: a value of a tenth of a bucket's tuples is then not overlooked."""
    return max(32, min(256, 10 * grid.buckets))


def encode_summaries(hot: HotKeys, grid: Grid, hashes: Mapping[int, Hashes], min_ts: int) -> bytes:
    """What a packing task reports of the values it has sent."""
    counted = {cls: summarise(hashes[cls], summary_size(grid)) for cls in hot.classes if cls in hashes}
    return json.dumps([min_ts, [[cls, summary.to_json()] for cls, summary in counted.items()]]).encode()


def decode_summaries(blob: bytes) -> tuple[int, dict[int, Summary]]:
    min_ts, counted = json.loads(blob)
    return min_ts, {cls: Summary.from_json(fields) for cls, fields in counted}


def check_tables(found: Collection[int], expected: HotTable | None, hot: HotKeys | None) -> None:
    """Refuses a batch that was not routed by one table, or not by the one its state goes by.

    `found` are the digests of the tables by which the batch's tasks have sent tuples.

    The first bucket knows what was to be: it puts the table in place again, so that the query can be resumed.
    Another try of its task would find the table, but the other buckets may have gone without it: all tries
    of that run are refused.
    """
    if len(found) > 1:
        raise DataError("the tasks of one batch have read different routing tables; resume the query")
    if expected is None or not found:
        return
    files, run = hot.files() if hot else None, run_id() or ""
    is_late = files is not None and files.was_put_back(batch_id(), run)
    if expected.digest in found and not is_late:
        return
    if files is None:
        raise DataError(
            "this query has hot values spread over its buckets, by tables it cannot find now; "
            f"resume it with the same checkpoint folder, and {FOLDER} if that was set"
        )
    files.put_back(batch_id(), expected, run)
    raise DataError(
        f"the routing table in {files.folder} was missing or altered; it has been put back: resume the query"
    )


def table_of(state: Mapping[str, Any]) -> HotTable:
    """The table that a first bucket's state says is in force."""
    return HotTable.from_json(state.get("table", ()))
