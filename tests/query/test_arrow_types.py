"""Spark's type names read as Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.errors import WatersmeetError
from watersmeet.query.arrow_types import arrow_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BIGINT", pa.int64()),
        ("int", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("decimal", pa.decimal128(10, 0)),
        ("varchar(20)", pa.string()),
        ("array<array<double>>", pa.list_(pa.list_(pa.float64()))),
        ("map<string, decimal(5, 1)>", pa.map_(pa.string(), pa.decimal128(5, 1))),
        ("struct<a:int,b:array<string>>", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("STRUCT<aB: INT, `odd, name`: DATE>", pa.struct([("aB", pa.int32()), ("odd, name", pa.date32())])),
        ("struct<>", pa.struct([])),
    ],
)
def test_a_spark_type_has_its_arrow_type(text: str, expected: pa.DataType) -> None:
    assert arrow_type(text) == expected


@pytest.mark.parametrize("text", ["integr", "array<>", "map<int>", "struct<a>", "array<int", ""])
def test_what_is_no_type_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(WatersmeetError, match="write"):
        arrow_type(text)
