"""How many bytes a column's values take on the wire, as a Spark SQL expression."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    ShortType,
    StringType,
)

_FIXED: dict[type[DataType], int] = {
    BooleanType: 1,
    ByteType: 1,
    ShortType: 2,
    IntegerType: 4,
    FloatType: 4,
    DateType: 4,
}
_NESTED = ("array", "map", "struct", "variant")


def mean_bytes(sql: str, type_: DataType) -> str:
    """The mean size of an expression's values; NULL takes none, nested values count as their text."""
    if isinstance(type_, StringType | BinaryType):
        return f"avg(coalesce(octet_length({sql}), 0))"
    if type_.typeName() in _NESTED:
        return f"avg(coalesce(octet_length(CAST({sql} AS STRING)), 0))"
    width = 16 if isinstance(type_, DecimalType) else _FIXED.get(type(type_), 8)
    return f"{width}"
