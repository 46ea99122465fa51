"""A link as a folder: files that one site publishes exactly once, and the other reads through Spark.

Files get there as answers do (`sinks/file_commit.py`): a batch that is done again finds its file there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.spark.session.failures import RESUME
from watersmeet.spark.sinks.file_commit import FileWriter, begin, commit, last_batch
from watersmeet.spark.sinks.files import SPARED
from watersmeet.spark.sites.link_file import BODY, MARKS, SOURCE
from watersmeet.spark.storage.folder import Folder
from watersmeet.spark.storage.hadoop_tree import open_tree
from watersmeet.spark.storage.paths import spark_path

SCHEMA = f"{SOURCE} string, {BODY} binary"
MOST_BYTES = 128 << 20  # that a batch takes of a link, so that a site that was away catches up in pieces
FORMAT = "parquet"

Rows = DataFrame | None  # (source, body), if there are any
MarksAfter = Callable[[int], bytes]  # the row of marks, given the file before


@dataclass(frozen=True)
class LinkFolder:
    """One way between two sites."""

    spark: SparkSession
    source: str
    target: str
    path: str

    @property
    def name(self) -> str:
        return f"the link from {self.source} to {self.target}"

    def publish(self, rows: Rows, marks: MarksAfter, *, batch: int, plan: str, writer: str) -> None:
        """Puts a batch's file onto the link, unless it is there already."""
        try:
            self._publish(rows, marks, batch, plan, FileWriter(f"{self.source}-{self.target}", writer))
        except OSError as error:
            raise DataError(f"{self.name}: {error}. Look at {self.path}, {RESUME}") from error

    def _publish(self, rows: Rows, marks: MarksAfter, batch: int, plan: str, writer: FileWriter) -> None:
        tree = open_tree(self.spark, self.path)
        queries = frozenset({writer.id})
        token = secrets.token_hex(4)
        attempt = begin(tree, writer, batch=batch, queries=queries, token=token, plan=plan)
        if not attempt.due:
            return
        body = bytearray(marks(last_batch(tree, writer)))
        session = rows.sparkSession if rows is not None else self.spark
        # No SQL text: Spark's own stack may overflow on a literal of some hundred characters.
        frame = session.range(1).select(F.lit(MARKS).alias(SOURCE), F.lit(body).alias(BODY))
        whole = frame if rows is None else rows.unionAll(frame)
        options = {**SPARED, "compression": "zstd"}
        # One file: it is seen as a whole or not at all, the marks with the rows that they are after.
        whole.coalesce(1).write.format(FORMAT).options(**options).save(
            spark_path(f"{self.path}/{attempt.staging}")
        )
        commit(tree, writer, attempt)

    def read(self) -> DataFrame:
        """The link's files, as they come."""
        try:
            Folder(self.spark, self.path).make("")
        except OSError as error:
            said = error.strerror or error
            raise ConfigurationError(f"{self.name}: {self.path} cannot be made: {said}") from None
        reader = self.spark.readStream.schema(SCHEMA).option("maxBytesPerTrigger", str(MOST_BYTES))
        # However long a site was away, no file of a link is too old.
        return reader.option("maxFileAge", "100000d").format(FORMAT).load(spark_path(self.path))


def link_rows(messages: DataFrame, kind: str, source: str, body: str, sends: list[str]) -> DataFrame:
    """The chunks among messages that take one of these sends, as a link holds them."""
    chosen = messages.where((F.col("kind") == kind) & F.col(source).isin(sends))
    return chosen.select(F.col(source).alias(SOURCE), F.col(body).alias(BODY))
