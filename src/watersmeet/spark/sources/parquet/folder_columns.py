"""Columns that folders such as `day=2024-05-01` give to the files below them, by the rules of Spark's reader.

A folder's value comes before a column of that name in the file. Only folders below the source's path count,
and of these only those without another folder between them and the file; where the path is a pattern, or
`recursiveFileLookup` is set, none does. Values of types that take more than their text (floats, timestamps,
and so on) are left to Spark.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.query import Connector
from watersmeet.query.arrow_types import arrow_type
from watersmeet.spark.storage.paths import local_path

DIRECT = "spark.watersmeet.directFiles"  # a session's setting: `false` lets Spark read the files

_PATTERN = re.compile(r"[{}\[\]*?\\]")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def is_pattern(path: str) -> bool:
    """Whether Spark takes a path for a pattern of paths."""
    return bool(_PATTERN.search(path))


def column_root(path: Path, source: Connector) -> str | None:
    """The folder below which folders give columns to the files of a source at `path`, if they do."""
    if (source.option("recursiveFileLookup") or "").lower() == "true":
        return None
    if not is_pattern(str(path)):
        return str(path)
    base = source.option("basePath")
    return None if base is None else str(local_path(base))


def folder_values(path: str, root: str | None) -> dict[str, str]:
    """What the folders of a file give, as they spell it, by column in small letters.

    >>> folder_values("/data/x=1/in/day=2024-05-01/k=5/part.parquet", "/data/x=1/in")
    {'k': '5', 'day': '2024-05-01'}
    """
    if root is None:
        return {}
    found: dict[str, str] = {}
    for folder in reversed(Path(os.path.relpath(path, root)).parent.parts):
        name, sign, value = folder.partition("=")
        if sign:
            found[_unescaped(name).lower()] = value
        elif found:
            break
    return found


def folder_value(path: str, name: str, text: str, spark_type: str) -> pa.Scalar:
    """A folder's value as the declared type; refuses what is better left to Spark."""
    declared = arrow_type(spark_type)
    if text == _NO_VALUE:
        return pa.scalar(None, declared)
    if pa.types.is_string(declared):
        return pa.scalar(_unescaped(text))
    is_whole = pa.types.is_integer(declared) and _WHOLE.fullmatch(text)
    if is_whole or (pa.types.is_date(declared) and _DAY.fullmatch(text)):
        try:
            return pa.scalar(text.removeprefix("+")).cast(declared)
        except pa.ArrowInvalid:
            pass
    raise DataError(
        f"{path} lies in the folder {name}={text}, and that is not read as {spark_type} here. Rename the "
        f"folder, or let Spark read the files: --conf {DIRECT}=false"
    )


def _unescaped(text: str) -> str:
    """A text in which Spark wrote characters that no folder may have as `%` and two hexadecimal digits."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
