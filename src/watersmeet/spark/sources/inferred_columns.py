"""The columns of streams declared without any: found in their sources once, then kept with the checkpoint.

Files that come later may suggest other types than those that were there at the start; a query goes on with
the columns it was started with, as its state was written by them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError, DataError
from watersmeet.query import Column, Stream
from watersmeet.spark.sources.open_stream import source_columns
from watersmeet.spark.storage.folder import Folder

RECORD = "columns.json"


@dataclass
class InferredColumns:
    """Finds columns, in the checkpoint's record if it has them; `fresh` are those found in the sources."""

    spark: SparkSession
    base: Path
    root: str | None = None  # the pipeline's checkpoint, if it has one
    fresh: dict[str, tuple[Column, ...]] = field(default_factory=dict)

    def __call__(self, stream: Stream) -> tuple[Column, ...]:
        kept = self._kept().get(stream.name.lower())
        if kept is not None:
            return kept
        self.fresh[stream.name] = source_columns(self.spark, stream, self.base)
        return self.fresh[stream.name]

    def keep(self) -> None:
        """Writes down what was found, for the next start."""
        if self.root is None or not self.fresh:
            return
        found = {name.lower(): columns for name, columns in self.fresh.items()}
        texts = {
            name: [[column.name, column.type] for column in columns]
            for name, columns in {**self._kept(), **found}.items()
        }
        try:
            Folder(self.spark, self.root).write(RECORD, json.dumps(texts, indent=1))
        except OSError as error:
            raise ConfigurationError(
                f"the checkpoint {self.root} cannot be written: {error.strerror or error}"
            ) from None

    def _kept(self) -> dict[str, tuple[Column, ...]]:
        if self.root is None:
            return {}
        try:
            text = Folder(self.spark, self.root).read(RECORD)
            found = json.loads(text) if text is not None else {}
            return {name: tuple(Column(*pair) for pair in columns) for name, columns in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            raise DataError(
                f"the checkpoint {self.root} is damaged: {RECORD} cannot be read. Put it back from a copy, "
                "or start anew with another checkpoint"
            ) from None
