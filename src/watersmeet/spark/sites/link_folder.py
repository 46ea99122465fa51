"""A link as a folder: files that one site publishes exactly once, and the other reads through Spark.

Files get there as answers do (`sinks/file_commit.py`): a batch that is done again finds its file there.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Set
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import ConfigurationError
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sinks.file_commit import FileWriter, begin, commit, last_batch
from watersmeet.spark.sinks.files import SPARED
from watersmeet.spark.sites.link_file import BODY, MARKS, SOURCE, Marks
from watersmeet.spark.sites.link_record import LinkRecord, Sent
from watersmeet.spark.sites.parcel import Parcel, refuse_write
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.hadoop_tree import open_tree
from watersmeet.spark.storage.paths import spark_path

SCHEMA = f"{SOURCE} string, {BODY} binary"
MOST_BYTES = 128 << 20  # that a batch takes of a link, so that a site that was away catches up in pieces
FORMAT = "parquet"


@dataclass(frozen=True)
class LinkFolder:
    """One way between two sites."""

    spark: SparkSession
    source: str
    target: str
    path: str
    record: LinkRecord | None = None  # the sender's

    @property
    def name(self) -> str:
        return f"the link from {self.source} to {self.target}"

    def publish(self, parcel: Parcel) -> Sent:
        """Puts a batch's file onto the link, unless it is there already."""
        try:
            return self._publish(parcel, FileWriter(f"{self.source}-{self.target}", parcel.writer))
        except (OSError, Py4JJavaError, PySparkException) as error:
            said = f"{error if isinstance(error, OSError) else explain_failure(error)}"
            raise refuse_write(self.name, f"{said}. Look at {self.path}", error) from error

    def _publish(self, parcel: Parcel, writer: FileWriter) -> Sent:
        assert self.record is not None
        tree = open_tree(self.spark, self.path)
        queries, token = frozenset({writer.id}), secrets.token_hex(4)
        attempt = begin(
            tree, writer, batch=parcel.batch, queries=queries, token=token, plan=parcel.batch_plan
        )
        if not attempt.due:
            return self.record.read()
        marks = Marks(parcel.fingerprint, parcel.batch, last_batch(tree, writer), parcel.marks).body()
        session = parcel.rows.sparkSession if parcel.rows is not None else self.spark
        # No SQL text: Spark's own stack may overflow on a literal of some hundred characters.
        frame = session.range(1).select(F.lit(MARKS).alias(SOURCE), F.lit(bytearray(marks)).alias(BODY))
        whole = frame if parcel.rows is None else parcel.rows.select(SOURCE, BODY).unionAll(frame)
        options = {**SPARED, "compression": "zstd"}
        # One file: it is seen as a whole or not at all, the marks with the rows that they are after.
        staging = f"{self.path}/{attempt.staging}"
        whole.coalesce(1).write.format(FORMAT).options(**options).save(spark_path(staging))
        size = sum(tree.size(f"{attempt.staging}/{name}") for name in tree.files(attempt.staging))
        counts = replace(parcel.counts, mark_bytes=len(marks), messages=1, framed_bytes=size)
        sent = self.record.note(parcel.batch, counts)
        commit(tree, writer, attempt)
        return sent

    def open(self) -> None:
        """Makes the folder, unless it is there."""
        try:
            Folder(self.spark, self.path).make("")
        except OSError as error:
            said = error.strerror or error
            raise ConfigurationError(f"{self.name}: {self.path} cannot be made: {said}") from None

    def sweep(self, read: Set[str]) -> None:
        """Removes files that its reader has done with, and that Spark has not; or leaves them."""
        with contextlib.suppress(OSError):
            tree = open_tree(self.spark, self.path)
            for name in set(tree.names("")) & read:
                tree.remove(name)

    def read(self) -> DataFrame:
        """The link's files, as they come."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxBytesPerTrigger", str(MOST_BYTES))
        # Spark removes what it has read once the batch is committed: the bill does not need it.
        reader = reader.option("cleanSource", "delete")
        # However long a site was away, no file of a link is too old.
        return reader.option("maxFileAge", "100000d").format(FORMAT).load(spark_path(self.path))
