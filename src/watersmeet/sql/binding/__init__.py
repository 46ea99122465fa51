"""The meaning of a parsed SELECT: its names, types and conditions, bound to declared streams."""

from watersmeet.sql.binding.bind import (
    Infer,
    Statements,
    bind_answers,
    bind_derived,
    bind_query,
    bind_select,
    bind_stream,
    parse_pipeline,
    parse_statements,
)

__all__ = [
    "Infer",
    "Statements",
    "bind_answers",
    "bind_derived",
    "bind_query",
    "bind_select",
    "bind_stream",
    "parse_pipeline",
    "parse_statements",
]
