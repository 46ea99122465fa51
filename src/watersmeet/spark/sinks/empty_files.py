"""Files without rows among those of a batch: Spark's first task writes one even if it has no rows."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from watersmeet.spark.storage.tree import Tree

FIRST = "part-00000-"  # what Spark calls the files of the first task
LARGEST = 1 << 16  # bytes; a file without rows has little more than its columns' names


def remove_empty(tree: Tree, folder: str, format: str) -> list[str]:
    """Removes the files without rows from a folder that Spark has written to; those that are left."""
    found = tree.files(folder)
    empty = {name for name in found if _is_first(name) and _is_empty(tree, f"{folder}/{name}", format)}
    for name in empty:
        tree.remove(f"{folder}/{name}")
    return [name for name in found if name not in empty]


def holds_no_rows(content: bytes, format: str) -> bool:
    """Whether the content of a file is that of one without rows; False where nobody can tell.

    >>> holds_no_rows(b"", "json"), holds_no_rows(b"{}", "json")
    (True, False)
    """
    try:
        if format == "parquet":
            return bool(pq.read_metadata(io.BytesIO(content)).num_rows == 0)
        if format == "orc":
            return bool(orc.ORCFile(io.BytesIO(content)).nrows == 0)
    except (pa.ArrowException, OSError):
        return False
    return not content


def _is_first(name: str) -> bool:
    return name.rpartition("/")[2].startswith(FIRST)


def _is_empty(tree: Tree, path: str, format: str) -> bool:
    content = tree.content(path, at_most=LARGEST)
    return content is not None and holds_no_rows(content, format)
