"""The routing tables of a query's micro-batches, as small files that every task can read.

    FOLDER/QUERY-PLAN/000000000012.json   the table in force from batch 12 on, until the next file

Batch 11's first bucket decides what batch 12 goes by, and writes it before its task ends. Spark packs batch
12 after that, so all tasks of a batch read the same file, and so they do when the batch is done again after a
crash: a file is replaced only by a batch before it. Old files stay for a few batches more than a resumed
query could ask for.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from watersmeet.errors import DataError
from watersmeet.kernel import NO_HOT_VALUES, HotTable
from watersmeet.spark.storage.folder import write_whole

KEPT = 8  # files beyond the one in force
PUT_BACK = "put-back"  # a file: which run of the query has found the table of which batch missing


@dataclass(frozen=True)
class RoutingFiles:
    """The folder of one query."""

    folder: Path

    def read(self, batch: int) -> HotTable:
        """The table in force in a batch; none has been written where no value was ever hot."""
        numbers = [number for number in self._numbers() if number <= batch]
        if not numbers:
            return NO_HOT_VALUES
        path = self._path(max(numbers))
        try:
            return HotTable.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"the routing table {path} cannot be read ({error})") from None

    def write(self, batch: int, table: HotTable) -> None:
        """Writes the table of a batch whole or not at all, and removes files that no batch will ask for."""
        self._write(self._path(batch), table.to_json())
        for number in [number for number in self._numbers() if number < batch][: -1 - KEPT]:
            self._path(number).unlink(missing_ok=True)

    def put_back(self, batch: int, table: HotTable, run: str) -> None:
        """Puts a table in place that was not there when this run of the query looked for it."""
        self._write(self.folder / PUT_BACK, [batch, run])
        self.write(batch, table)

    def was_put_back(self, batch: int, run: str) -> bool:
        """Whether this run may have looked for the batch's table before it was put back."""
        try:
            return bool(json.loads((self.folder / PUT_BACK).read_text(encoding="utf-8")) == [batch, run])
        except FileNotFoundError:
            return False

    def forget(self, batch: int) -> None:
        """Removes a file that an attempt at the batch before has left, and that is not to be."""
        self._path(batch).unlink(missing_ok=True)

    def _write(self, path: Path, content: Any) -> None:
        draft = self.folder / f".{secrets.token_hex(8)}.tmp"  # of this attempt: there may be another
        write_whole(path, json.dumps(content), draft)

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdecimal())

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch:012}.json"
