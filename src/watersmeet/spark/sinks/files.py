"""Answers in files that any reader may read at any time: each answer once, none of an unfinished batch.

Spark's own file sink remembers by number which batches it has written, so a second query, or the same one on
a new checkpoint, finds its numbers taken and writes nothing. Here each checkpoint has files and numbers of
its own, in one folder; `file_commit.py` says how they get there.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.spark.session.connectors import resolve
from watersmeet.spark.session.failures import RESUME, explain_failure
from watersmeet.spark.sinks.empty_files import remove_empty
from watersmeet.spark.sinks.file_commit import FileWriter, begin, commit, discard
from watersmeet.spark.sinks.target import Batch, Target
from watersmeet.spark.storage.hadoop_tree import open_tree
from watersmeet.spark.storage.paths import local_path
from watersmeet.spark.storage.tree import Tree

SPARKS_LOG = "_spark_metadata"
# A marker that Hadoop would write into every staging folder: the record says the same.
SPARED = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


@dataclass(frozen=True, kw_only=True)
class FileSink:
    """A folder of files."""

    what: str
    format: str
    path: str
    options: Mapping[str, str]
    tree: Tree
    name: str
    part: str

    def check(self, columns: list[str]) -> None:
        """Refuses a folder where Spark's own file sink has written: readers would pass over our files."""
        with self._explained():
            is_sparks = bool(self.tree.names(SPARKS_LOG))
        if is_sparks:
            raise ConfigurationError(
                f"{self.what}: Spark's own file sink has written to {self._shown}, and where its log is, "
                f"Spark reads no other files. Name another folder, or move the old files away and remove "
                f"{self._shown}/{SPARKS_LOG}"
            )

    def write(self, batch: Batch) -> None:
        """Publishes the answers of the queries that the folder has none of in this batch."""
        with self._explained():
            self._write(batch)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """While open, what the file system refuses is said in words."""
        try:
            yield
        except OSError as error:
            known = explain_failure(error)
            if isinstance(known, DataError):  # such as a full disk
                raise known from error
            raise DataError(f"{self.what}: {error}. Look at {self._shown}, {RESUME}") from error

    @property
    def _shown(self) -> str:
        """The folder as a person would write it."""
        return str(local_path(self.path) or self.path)

    def _write(self, batch: Batch) -> None:
        writer = FileWriter(self.name, batch.origin.writer, self.part)
        token = secrets.token_hex(4)
        attempt = begin(
            self.tree, writer, batch=batch.number, queries=batch.queries, token=token, plan=batch.plan
        )
        rows = batch.answers(attempt.due) if attempt.due else None
        if rows is None:
            return
        options = {**SPARED, **self.options}
        try:
            rows.write.format(self.format).options(**options).save(f"{self.path}/{attempt.staging}")
            has_answers = remove_empty(self.tree, attempt.staging, self.format.lower())
        except Exception:
            with suppress(OSError):  # on a full disk the next try needs what this one has taken
                discard(self.tree, attempt)
            raise
        if has_answers:
            commit(self.tree, writer, attempt)
        else:
            discard(self.tree, attempt)


def open_files(target: Target) -> FileSink:
    """The folder that a sink names."""
    connector = target.connector
    options = resolve(connector, target.base, target.what)
    path = next((options.pop(key) for key in list(options) if key.lower() == "path"), None)
    if path is None:
        raise ConfigurationError(f"{target.what} (format {connector.format}): add path = 'folder'")
    return FileSink(
        what=target.what,
        format=connector.format,
        path=path,
        options=options,
        tree=open_tree(target.spark, path),
        name=target.name,
        part=target.part,
    )
