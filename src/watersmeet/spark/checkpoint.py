"""The folder of a query that can be resumed: Spark's checkpoint, our record of the plan, a control stream.

    DIR/spark            Spark's checkpoint
    DIR/control          files of the control stream: any row ends the input
    DIR/watersmeet.json  the plan the state was written by, and whether the input has been ended

The record is written before the first batch. A query is resumed with the number of partitions and the shares
it was started with, whatever the session's settings and statistics are now: the state was cut by them.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.shares import Shares
from watersmeet.query import Query
from watersmeet.spark.connectors import is_remote
from watersmeet.spark.state_log import describe_change


@dataclass(frozen=True)
class Record:
    """What `watersmeet.json` says."""

    fingerprint: str
    partitions: int
    shares: tuple[int, ...]
    ended: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint folder, on a local disk or on anything Spark can write to."""

    spark: SparkSession
    folder: str

    @property
    def spark_folder(self) -> str:
        return f"{self.folder}/spark"

    def plan(self, fresh: PhysicalPlan) -> PhysicalPlan:
        """The plan to run: `fresh` on a new folder, else the one it was started with, if of this query."""
        record = self._read()
        if record is None:
            self._write(Record(fresh.fingerprint, fresh.partitions, fresh.shares.shares))
            return fresh
        if record.ended:
            raise ConfigurationError(
                f"the input of {self.folder} was ended by --flush: what comes now would be after the end of "
                "time. Start anew with another checkpoint"
            )
        resumed = PhysicalPlan(fresh.query, _shares(fresh.query, fresh, record.shares), record.partitions)
        if resumed.fingerprint != record.fingerprint:
            raise ConfigurationError(describe_change(record.fingerprint, resumed.fingerprint))
        return resumed

    def control(self) -> DataFrame:
        """The control stream."""
        if not is_remote(self.folder):
            Path(self.folder, "control").mkdir(parents=True, exist_ok=True)
        return self.spark.readStream.schema("value string").text(f"{self.folder}/control")

    def end_input(self) -> None:
        """Puts the row into the control stream that ends all input."""
        end = self.spark.range(1).selectExpr("'end' AS value").coalesce(1)
        end.write.mode("append").text(f"{self.folder}/control")

    def mark_ended(self) -> None:
        """Remembers that no more input may be taken."""
        record = self._read()
        if record is not None:
            self._write(Record(record.fingerprint, record.partitions, record.shares, ended=True))

    @property
    def _record_path(self) -> str:
        return f"{self.folder}/watersmeet.json"

    def _read(self) -> Record | None:
        text = self._read_text()
        if text is None:
            return None
        try:
            fields = json.loads(text)
            return Record(
                fields["fingerprint"], fields["partitions"], tuple(fields["shares"]), fields["ended"]
            )
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"the checkpoint is damaged: {self._record_path} cannot be read. Put it back from a copy, "
                "or start anew with another checkpoint"
            ) from None

    def _read_text(self) -> str | None:
        if is_remote(self.folder):
            try:
                return str(self.spark.read.text(self._record_path, wholetext=True).first()[0])  # type: ignore[index]
            except (PySparkException, TypeError):
                return None
        path = Path(self._record_path)
        return path.read_text() if path.exists() else None

    def _write(self, record: Record) -> None:
        text = json.dumps(asdict(record))
        if is_remote(self.folder):
            frame = self.spark.createDataFrame([(text,)], "value string").coalesce(1)
            frame.write.mode("overwrite").text(self._record_path)
            return
        path = Path(self._record_path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".tmp")
            draft.write_text(text)
            os.replace(draft, path)
        except OSError as error:
            raise ConfigurationError(f"the checkpoint {self.folder} cannot be written: {error}") from None


def _shares(query: Query, fresh: PhysicalPlan, shares: tuple[int, ...]) -> Shares:
    """The stored shares, if they fit the query at all; otherwise its fingerprint will tell."""
    fits = len(shares) == len(query.graph.classes)
    return Shares(query.graph, shares, fresh.shares.bytes_per_s) if fits else fresh.shares
