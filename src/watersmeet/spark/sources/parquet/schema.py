"""Whether parquet files hold what a stream declares, found from their footers before a query starts.

The rules are those of Spark's parquet reader: integers and decimals may be read wider than they were written,
nothing may be narrowed or turned into text, and timestamps of nanoseconds are not read at all.
"""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import DataError
from watersmeet.query import Column, Stream
from watersmeet.query.arrow_types import arrow_type
from watersmeet.spark.sources.parquet.data_files import data_files, sample_files
from watersmeet.spark.sources.parquet.folder_columns import column_root, folder_values

MAX_FILES = 32  # looked into; the first, the last and some between them


def check_parquet(stream: Stream, path: Path) -> None:
    """Refuses parquet files under `path` that do not match the declared columns of `stream`.

    A file without any bytes is passed over, as Spark does.
    """
    assert stream.source is not None
    root = column_root(path, stream.source)
    for file, *_ in sample_files(data_files(path), MAX_FILES, itemgetter(0))[0]:
        try:
            schema = pq.read_schema(file)
        except (pa.ArrowInvalid, OSError) as error:
            reason = str(error).split("\n")[0]
            raise DataError(f"stream {stream.name}: {file} is not a whole parquet file: {reason}") from None
        given = folder_values(file, root)
        for column in stream.columns:
            if column.name.lower() not in given and (problem := _problem(column, schema)):
                raise DataError(f"stream {stream.name}: {file} does not match its declared schema: {problem}")


def _problem(column: Column, schema: pa.Schema) -> str | None:
    names = [name for name in schema.names if name.lower() == column.name.lower()]
    if not names:
        return f"it has no column {column.name} (it has {', '.join(schema.names)})"
    held = schema.field(names[0]).type
    if pa.types.is_timestamp(held) and held.unit == "ns":
        return (
            f"column {column.name} holds nanoseconds, which Spark does not read; write it in microseconds "
            "(pyarrow: coerce_timestamps='us')"
        )
    if not fits(held, arrow_type(column.type)):
        return f"column {column.name} is declared {column.type} and the file holds {held}"
    return None


def fits(held: pa.DataType, declared: pa.DataType) -> bool:
    """Whether Spark reads values held in a file as the declared type.

    >>> fits(pa.int32(), pa.int64()), fits(pa.int64(), pa.int32()), fits(pa.int64(), pa.string())
    (True, False, False)
    """
    types = pa.types
    if types.is_dictionary(held):
        return fits(held.value_type, declared)
    if types.is_integer(held):
        return _integer_fits(held, declared)
    if types.is_floating(held):
        return bool(types.is_floating(declared) and held.bit_width <= declared.bit_width)
    if types.is_decimal(held):
        return bool(
            types.is_decimal(declared)
            and declared.scale >= held.scale
            and declared.precision - declared.scale >= held.precision - held.scale
        )
    if _is_bytes(held):
        return _is_bytes(declared)
    if types.is_timestamp(held):
        return bool(types.is_timestamp(declared))
    if types.is_date(held):
        return bool(types.is_date(declared) or (types.is_timestamp(declared) and declared.tz is None))
    return _nested_fits(held, declared)


def _integer_fits(held: pa.DataType, declared: pa.DataType) -> bool:
    types = pa.types
    if types.is_integer(declared):
        # Parquet keeps 8 and 16 bits in 32, so Spark cannot tell them apart.
        return bool(max(held.bit_width, 32) <= max(declared.bit_width, 32))
    if types.is_float64(declared):
        return bool(held.bit_width <= 32)
    digits = 10 if held.bit_width <= 32 else 20
    return bool(types.is_decimal(declared) and declared.precision - declared.scale >= digits)


def _nested_fits(held: pa.DataType, declared: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(held) or types.is_large_list(held):
        return bool(types.is_list(declared) and fits(held.value_type, declared.value_type))
    if types.is_map(held):
        return bool(
            types.is_map(declared)
            and fits(held.key_type, declared.key_type)
            and fits(held.item_type, declared.item_type)
        )
    if types.is_struct(held):
        if not types.is_struct(declared):
            return False
        inside = {field.name.lower(): field.type for field in held}
        return all(
            field.name.lower() in inside and fits(inside[field.name.lower()], field.type)
            for field in declared
        )
    return bool(held == declared)


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)
