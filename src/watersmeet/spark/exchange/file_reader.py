"""What reads files in place of Spark: one reader for each format whose files go straight into chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class NamedFile:
    """A file of an input, and the time of the batch it came with, where that is asked for."""

    path: str
    now_us: int | None = None


class FileReader(Protocol):
    """Reads the files of one input."""

    def read(self, files: Sequence[NamedFile]) -> Iterator[pa.RecordBatch]:
        """The rows of these files as a pack takes them: the columns of its chunks, and the batch's time.

        Columns may come after the join; rows then hold references to them (`REF`).
        """
