"""Spark's types as text: how they are spelt, which can be compared, and what a comparison casts to."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

_NAMES = {
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TEXT: "string",
    exp.DType.BINARY: "binary",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
    exp.DType.VARIANT: "variant",
}

INTEGRALS = ("tinyint", "smallint", "int", "bigint")
FRACTIONS = ("float", "double")
TIMES = ("date", "timestamp_ntz", "timestamp")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_MAX_DIGITS = 38
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def spell_type(data_type: exp.DataType) -> str | None:
    """A parsed type in Spark's own short spelling, `array<string>`, or None for what Spark has not."""
    kind, parts = data_type.this, data_type.expressions
    if isinstance(kind, exp.Interval):
        return " ".join(kind.sql(dialect="spark").lower().split())
    if kind in _NAMES:
        return _NAMES[kind]
    if kind == exp.DType.DECIMAL:
        return _spell_decimal([part.name for part in parts])
    if kind in (exp.DType.VARCHAR, exp.DType.CHAR):
        return f"{kind.value.lower()}({parts[0].name})" if parts else "string"
    if kind == exp.DType.ARRAY and len(parts) == 1:
        return _nested("array<{}>", [parts[0]])
    if kind == exp.DType.MAP and len(parts) == 2:
        return _nested("map<{},{}>", parts)
    if kind == exp.DType.STRUCT and parts and all(isinstance(part, exp.ColumnDef) for part in parts):
        fields = ",".join(f"{_field_name(part.name)}:{{}}" for part in parts)
        return _nested(f"struct<{fields}>", [part.args.get("kind") for part in parts])
    return None


def _spell_decimal(parameters: list[str]) -> str | None:
    if not all(parameter.isdigit() for parameter in parameters):
        return None
    precision, scale = ([int(parameter) for parameter in parameters] + [10, 0][len(parameters) :])[:2]
    return f"decimal({precision},{scale})" if 0 < precision <= _MAX_DIGITS and scale <= precision else None


def _field_name(name: str) -> str:
    plain = name.replace("_", "a").isalnum()
    return (name if plain else "`" + name.replace("`", "``") + "`").replace("{", "{{").replace("}", "}}")


def _nested(template: str, parts: list[exp.Expr | None]) -> str | None:
    spelt = [spell_type(part) if isinstance(part, exp.DataType) else None for part in parts]
    return None if None in spelt else template.format(*spelt)


def read_type(text: str) -> exp.DataType | None:
    """The tree of a type's text, or None where sqlglot does not know it."""
    try:
        return exp.DataType.build(text, dialect="spark")
    except Exception:
        return None


def field_type(name: str | None, path: Iterable[str]) -> str | None:
    """The type of a field inside a struct, or inside structs in it; None where that is not known."""
    for part in path:
        struct = read_type(name) if name and name.startswith("struct<") else None
        kinds = [
            item.args.get("kind")
            for item in (struct.expressions if struct else [])
            if item.name.lower() == part.lower()
        ]
        name = spell_type(kinds[0]) if kinds and isinstance(kinds[0], exp.DataType) else None
    return name or None


def comparison_type(left: str, right: str) -> str | None:
    """What `left = right` casts both sides to, or None where they cannot be compared.

    Spark's rules, less its casts of strings: a string compares with strings alone. float or double with
    another number compares as double.
    """
    left, right = _as_compared(left), _as_compared(right)
    if left == right:
        return None if left.startswith("map<") or left == "variant" else left
    if left in INTEGRALS and right in INTEGRALS:
        return max(left, right, key=INTEGRALS.index)
    if left in TIMES and right in TIMES:
        return max(left, right, key=TIMES.index)
    if _is_number(left) and _is_number(right):
        if left in FRACTIONS or right in FRACTIONS:
            return "double"
        return _wider_decimal(left, right)
    return None


def is_exact_cast(source: str, target: str) -> bool:
    """Whether values that differ as `source` still differ as `target`."""
    if source == target:
        return True
    if target == "double":
        return source in ("float", "tinyint", "smallint", "int")
    if source == "timestamp_ntz":
        return False  # two local times may be one instant where clocks are set forward
    if target.startswith("decimal"):
        (digits, scale), (target_digits, target_scale) = _decimal_of(source), _decimal_of(target)
        return scale <= target_scale and digits - scale <= target_digits - target_scale
    return True


def _as_compared(name: str) -> str:
    return "string" if name.startswith(("varchar(", "char(")) else name


def _is_number(name: str) -> bool:
    return name in INTEGRALS or name in FRACTIONS or _DECIMAL.fullmatch(name) is not None


def _decimal_of(name: str) -> tuple[int, int]:
    match = _DECIMAL.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else (_DIGITS[name], 0)


def _wider_decimal(left: str, right: str) -> str:
    (left_digits, left_scale), (right_digits, right_scale) = _decimal_of(left), _decimal_of(right)
    scale = max(left_scale, right_scale)
    whole = max(left_digits - left_scale, right_digits - right_scale)
    # Where 38 digits are not enough Spark keeps the whole part and gives up digits after the point.
    return f"decimal({min(_MAX_DIGITS, whole + scale)},{min(scale, max(0, _MAX_DIGITS - whole))})"
