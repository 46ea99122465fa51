"""Which files of a link its reader is done with: those of micro-batches that its checkpoint has committed.

Spark removes a link's files itself, each after the batch that has read it is committed. What a crash has
kept it from removing, it never removes. So a site that starts again looks once: Spark's checkpoint has a log
of the files of each source, by a number of their own, and says which number the newest committed batch has
reached.

    spark/commits/7            the newest batch that is committed
    spark/offsets/7            a line for each source: {"logOffset": 4}
    spark/sources/1/4          the files of number 4; of all numbers up to 9: 9.compact
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from watersmeet.spark.jobs.batch_log import committed_batch
from watersmeet.spark.storage.folder import Folder

_HEAD = 2  # lines of an offset file before those of the sources
_COMPACT = ".compact"


def files_read(checkpoint: Folder) -> set[str]:
    """The names of all files that a source of a query has read for good, without their folders."""
    newest = committed_batch(checkpoint)
    if newest < 0:
        return set()
    text = checkpoint.read(f"spark/offsets/{newest}") or ""
    found: set[str] = set()
    for source, line in enumerate(text.splitlines()[_HEAD:]):
        offset = _as_json(line)
        if isinstance(offset, dict) and "logOffset" in offset:
            found |= {name for number, name in _logged(checkpoint, source) if number <= offset["logOffset"]}
    return found


def _logged(checkpoint: Folder, source: int) -> Iterator[tuple[int, str]]:
    """The numbers and names of the files in a source's log."""
    folder = f"spark/sources/{source}"
    names = [name for name in checkpoint.names(f"{folder}/*") if name.removesuffix(_COMPACT).isdecimal()]
    compacted = max((int(n.removesuffix(_COMPACT)) for n in names if n.endswith(_COMPACT)), default=-1)
    for name in names:
        number = int(name.removesuffix(_COMPACT))
        if number < compacted or (number == compacted and not name.endswith(_COMPACT)):
            continue  # its files are in the compacted one
        for line in (checkpoint.read(f"{folder}/{name}") or "").splitlines():
            entry = _as_json(line)
            if isinstance(entry, dict) and {"path", "batchId"} <= entry.keys():
                yield int(entry["batchId"]), unquote(str(entry["path"]).rpartition("/")[2])


def _as_json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
