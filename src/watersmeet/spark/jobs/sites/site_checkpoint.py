"""The folder of one site's part of a query: Spark's checkpoint, the control stream, the plan it runs by.

DIR/spark, DIR/control    as those of any query
DIR/site.json             the plan's fingerprint, the number of buckets, and whether the input has ended
DIR/seen.json             the latest event time of the site's own streams, for a plan that is to take over
DIR/links/TARGET.json     what was put onto a link
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import BEGINNING
from watersmeet.spark.jobs.checkpoint import BATCHES, Checkpoint
from watersmeet.spark.storage.folder import Folder

RECORD = "site.json"
SEEN = "seen.json"
NO_TOPICS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class SiteCheckpoint:
    """A checkpoint folder, on a local disk or on anything Spark can write to."""

    spark: SparkSession
    folder: str

    @property
    def spark_folder(self) -> str:
        return f"{self.folder}/spark"

    def begin(self, plan: str, partitions: int, topics: Mapping[str, str] = NO_TOPICS) -> int:
        """The number of buckets to run with: that of a run before. Refuses another plan than that run's.

        `topics` are the links of Kafka, with their names; one that was a folder before is refused, too.
        """
        record = self._read()
        links = {"topics": dict(topics)} if topics else {}
        if record is None or not self._files.holds(BATCHES):
            self._write({"plan": plan, "partitions": partitions, "ended": False, **links})
            return partitions
        if record["plan"] != plan:
            raise ConfigurationError(
                f"the checkpoint {self.folder} was begun with plan {record['plan']}, and the file and the "
                f"statistics give plan {plan} now. Put those back that it was begun with (--plan, --stats), "
                "or start all sites anew with another checkpoint"
            )
        if record.get("topics", {}) != dict(topics):
            raise ConfigurationError(
                f"the checkpoint {self.folder} was begun with other links: "
                f"{_links(record.get('topics', {}))}, and the file says {_links(topics)} now. "
                "Put the links back, or start all sites anew with other checkpoints and links"
            )
        return int(record["partitions"])

    def has_ended(self) -> bool:
        """Whether an earlier run has ended all input for good."""
        record = self._read()
        return record is not None and bool(record["ended"])

    def mark_ended(self) -> None:
        """Remembers that nothing more can come."""
        record = self._read()
        if record is not None:
            self._write({**record, "ended": True})

    def seen_us(self) -> int:
        """The latest event time that the site's own streams have had."""
        try:
            text = self._files.read(SEEN)
            return BEGINNING if text is None else int(json.loads(text)["seen_us"])
        except (OSError, ValueError, LookupError, TypeError):
            return BEGINNING  # it is written with the next batch

    def note_seen(self, seen_us: int) -> None:
        """Remembers it, before anything of the batch leaves the site."""
        try:
            self._files.write(SEEN, json.dumps({"seen_us": seen_us}))
        except OSError as error:
            said = error.strerror or error
            raise ConfigurationError(f"the checkpoint {self.folder} cannot be written: {said}") from None

    def control(self) -> DataFrame:
        """The control stream."""
        return self._common.control()

    def is_ending(self) -> bool:
        """Whether the end of the site's own input is on its way, or has come."""
        return self._common.is_ending()

    def end_input(self) -> None:
        """Puts a row into the control stream, which ends the site's own input."""
        self._common.end_input()

    @property
    def _common(self) -> Checkpoint:
        return Checkpoint(self.spark, self.folder)

    @property
    def _files(self) -> Folder:
        return Folder(self.spark, self.folder)

    def _read(self) -> dict[str, Any] | None:
        try:
            text = self._files.read(RECORD)
            record: dict[str, Any] | None = None if text is None else json.loads(text)
            if record is not None and not {"plan", "partitions", "ended"} <= record.keys():
                raise ValueError("it is not what was written there")
        except (OSError, ValueError) as error:
            raise DataError(
                f"the checkpoint {self.folder} is damaged: {RECORD} cannot be read ({error}). "
                "Put it back from a copy, or start all sites anew with another checkpoint"
            ) from None
        return record

    def _write(self, record: dict[str, Any]) -> None:
        try:
            self._files.write(RECORD, json.dumps(record))
        except OSError as error:
            said = error.strerror or error
            raise ConfigurationError(f"the checkpoint {self.folder} cannot be written: {said}") from None


def _links(topics: Mapping[str, str]) -> str:
    """Links by what they are, as a person says it."""
    return ", ".join(f"{link} is topic {topic}" for link, topic in sorted(topics.items())) or "folders alone"
