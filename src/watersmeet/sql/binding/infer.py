"""The type of an expression, where it is certain: Spark decides the rest when the query runs.

A type serves to compare join attributes. One that is too narrow would lose answers, so what is merely
likely is widened (any whole number from a function is taken as bigint) or left unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

from watersmeet.sql.syntax.types import FRACTIONS, INTEGRALS, read_type, spell_type

# fmt: off
_STRING_FUNCTIONS = (
    "lower", "lcase", "upper", "ucase", "trim", "ltrim", "rtrim", "btrim", "initcap", "substr",
    "substring", "left", "right", "lpad", "rpad", "replace", "translate", "regexp_extract",
    "regexp_replace", "split_part", "substring_index", "concat_ws", "md5", "sha", "sha1", "sha2", "hex",
    "base64", "date_format", "from_unixtime", "to_json", "get_json_object", "format_string",
    "format_number", "soundex", "repeat", "space", "url_decode", "url_encode", "parse_url", "uuid",
)
_WHOLE_FUNCTIONS = (
    "length", "char_length", "character_length", "len", "octet_length", "bit_length", "ascii", "instr",
    "locate", "levenshtein", "year", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "hour",
    "minute", "second", "quarter", "weekofyear", "weekday", "datediff", "date_diff", "size",
    "cardinality", "array_size", "unix_timestamp", "to_unix_timestamp", "unix_seconds", "unix_millis",
    "unix_micros", "unix_date", "hash", "xxhash64", "crc32", "bit_count",
)
# fmt: on
_RETURNS = dict.fromkeys(_STRING_FUNCTIONS, "string") | dict.fromkeys(_WHOLE_FUNCTIONS, "bigint")
_KEEPS_FIRST = ("array_sort", "sort_array", "array_distinct", "nullif")
_NESTED = ("array<", "map<", "struct<", "binary", "variant")

Types = Mapping[int, str | None]  # by the identity of a column's node


def infer_type(node: exp.Expr, columns: Types) -> str | None:
    """The type of an expression given those of its columns, or None."""
    bare = node.unnest()
    if isinstance(bare, exp.Column):
        return columns.get(id(bare))
    if isinstance(bare, exp.Cast):
        return spell_type(bare.to) if isinstance(bare.to, exp.DataType) else None
    if isinstance(bare, exp.Anonymous):
        name = bare.name.lower()
        if name in _KEEPS_FIRST and bare.expressions:
            return infer_type(bare.expressions[0], columns)
        return _RETURNS.get(name) if not _reads_nested(bare, columns) else None
    return _family(_annotate(bare, columns), columns, bare)


def _annotate(node: exp.Expr, columns: Types) -> str | None:
    """What sqlglot infers from the types of columns and functions."""
    typed = node.copy()
    for original, copied in zip(node.walk(), typed.walk(), strict=True):
        if isinstance(original, exp.Column | exp.Anonymous | exp.Cast):
            name = infer_type(original, columns)
            known = read_type(name) if name else None
            copied.type = known if known is not None else exp.DType.UNKNOWN.into_expr()
    try:
        annotated = annotate_types(typed, dialect="spark", overwrite_types=False)
    except Exception:
        return None
    return spell_type(annotated.type) if isinstance(annotated.type, exp.DataType) else None


def _family(name: str | None, columns: Types, node: exp.Expr) -> str | None:
    if name in INTEGRALS:
        return "bigint"
    if name in FRACTIONS:
        return "double"
    if name == "string" and _reads_nested(node, columns):
        return None  # CONCAT and || put arrays together too
    return name if name in ("string", "boolean") else None


def _reads_nested(node: exp.Expr, columns: Types) -> bool:
    return any((columns.get(id(column)) or "").startswith(_NESTED) for column in node.find_all(exp.Column))
