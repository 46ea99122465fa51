"""Whether JSON and CSV files on this disk hold what a stream declares, as far as their first records tell.

Spark reads a key that a JSON record lacks as NULL, and a record may well lack one. So a declared column is
refused only where that is certain to be a mistake: it is the event time, without which a tuple is left out,
and none of 20 records or more has it; or no record has it and they have one of nearly the same name. Keys are
matched with their case. A CSV column is taken by its position whatever the header says, so a header that has
a declared name at another position is refused.
"""

from __future__ import annotations

import csv
import gzip
import heapq
import itertools
import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from watersmeet.errors import DataError
from watersmeet.query import Stream
from watersmeet.spark.sources.parquet.data_files import data_files
from watersmeet.spark.sources.parquet.folder_columns import column_root, folder_values

FILES, RECORDS = 8, 200  # looked into: the first of each
ENOUGH = 20  # records without an event time, of which one or two may be damaged
_LIKE = 0.85
_CORRUPT = "_corrupt_record"


def check_json(stream: Stream, path: Path) -> None:
    """Refuses JSON files under `path` of which no record has a declared column that is surely meant."""
    source = stream.source
    assert source is not None
    if (source.option("multiLine") or "").lower() == "true" or source.option("encoding"):
        return
    files = _first_files(path)
    keys: dict[str, None] = {}
    records = 0
    for record in itertools.chain.from_iterable(map(_records, files)):
        keys.update(dict.fromkeys(record))
        records += 1
    if not keys:
        return
    declared = {column.name for column in stream.columns}
    given = set(folder_values(str(files[0]), column_root(path, source)))
    given.add(source.option("columnNameOfCorruptRecord") or _CORRUPT)
    for column in stream.columns:
        if column.name in keys or column.name.lower() in given:
            continue
        like = next((key for key in keys if key not in declared and _is_meant(key, column.name)), None)
        if like is not None or (column.name == stream.event_time and records >= ENOUGH):
            advice = f"Did you mean {like}?" if like else f"They have {', '.join(keys)}."
            raise DataError(
                f"stream {stream.name}: no record in {path} has {column.name}, which would be NULL in every "
                f"tuple. {advice} Declare the columns as the records call them"
            )


def check_csv(stream: Stream, path: Path) -> None:
    """Refuses CSV files under `path` whose header has a declared name at another position."""
    source = stream.source
    assert source is not None
    if (source.option("header") or "").lower() != "true":
        return
    if (source.option("enforceSchema") or "").lower() == "false":  # then Spark compares them itself
        return
    between = source.option("sep") or source.option("delimiter") or ","
    for file in _first_files(path):
        header = [name.strip().lower() for name in _header(file, between)]
        for number, column in enumerate(stream.columns):
            at = header[number] if number < len(header) else "none"
            if at != column.name.lower() and column.name.lower() in header:
                raise DataError(
                    f"stream {stream.name}: {column.name} is declared as column {number + 1}, and column "
                    f"{number + 1} of {file} is {at}. Spark takes them by position: declare all columns in "
                    f"the order of the file, {', '.join(header)}"
                )


def _first_files(path: Path) -> list[Path]:
    return [Path(file.path) for file in heapq.nsmallest(FILES, data_files(path))]


def _is_meant(key: str, name: str) -> bool:
    """Whether a key can only be a declared name, spelt another way: `address2` is not `address1`."""
    if _plain(key) == _plain(name):
        return True
    digits = [re.findall(r"\d+", text) for text in (key, name)]
    return digits[0] == digits[1] and SequenceMatcher(None, _plain(key), _plain(name)).ratio() >= _LIKE


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _records(file: Path) -> Iterator[dict[str, object]]:
    for line in itertools.islice(_lines(file), RECORDS):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # Spark says what is wrong with it
        if isinstance(record, dict):
            yield record


def _header(file: Path, between: str) -> list[str]:
    first = next(_lines(file), "")
    return next(csv.reader([first], delimiter=between), []) if len(between) == 1 else []


def _lines(file: Path) -> Iterator[str]:
    """The lines of a file that can be read as text; none of another."""
    packed = file.suffix == ".gz"
    try:
        with gzip.open(file, "rt", encoding="utf-8") if packed else file.open(encoding="utf-8-sig") as text:
            yield from (str(line) for line in text)
    except (OSError, UnicodeDecodeError, EOFError):
        return
