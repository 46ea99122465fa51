"""Spark's type names as Arrow types: `array<struct<x:bigint>>` is a list of structs of int64."""

from __future__ import annotations

import re

import pyarrow as pa

from watersmeet.errors import WatersmeetError

TIMESTAMP = pa.timestamp("us", tz="UTC")

_SCALARS = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
}

_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_TEXT = re.compile(r"(?:varchar|char|character)\(\s*\d+\s*\)")
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.DOTALL | re.IGNORECASE)


def arrow_type(spark_type: str) -> pa.DataType:
    """The Arrow type that holds a Spark type's values.

    >>> arrow_type("array<struct<x: bigint, at: timestamp>>")
    ListType(list<item: struct<x: int64, at: timestamp[us, tz=UTC]>>)
    """
    text = spark_type.strip()
    name = text.lower()
    if name in _SCALARS:
        return _SCALARS[name]
    if _TEXT.fullmatch(name):
        return pa.string()
    if decimal := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(decimal[1] or 10), int(decimal[2] or 0))
    if nested := _NESTED.fullmatch(text):
        parts = _split(nested[2])
        match nested[1].lower():
            case "array" if len(parts) == 1:
                return pa.list_(arrow_type(parts[0]))
            case "map" if len(parts) == 2:
                return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
            case "struct":
                return pa.struct([_field(part, spark_type) for part in parts])
    raise WatersmeetError(f"'{spark_type}' is not a type: write it as Spark does, such as array<string>")


def fixed_width(spark_type: str) -> int | None:
    """The bytes of a value of a type whose values all take the same; None of others, known here or not.

    >>> fixed_width("bigint"), fixed_width("string"), fixed_width("variant")
    (8, None, None)
    """
    try:
        kind = arrow_type(spark_type)
    except WatersmeetError:
        return None
    return max(1, kind.bit_width // 8) if pa.types.is_primitive(kind) else None


def _field(text: str, spark_type: str) -> pa.Field:
    """A struct's field, `name: type` or `name type`, the name perhaps in backticks."""
    field = re.fullmatch(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))\s*(?::|\s)\s*(.+)", text, re.DOTALL)
    if not field:
        raise WatersmeetError(f"'{text.strip()}' in '{spark_type}' is not a field: write name: type")
    name = field[1].replace("``", "`") if field[1] else field[2]
    return pa.field(name, arrow_type(field[3]))


def _split(text: str) -> list[str]:
    """The parts between commas that stand inside no brackets and no backticks."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == "`"
        depth += 0 if quoted else (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts if text.strip() else []
