"""SQL text into the query model: the CQL dialect, declarations and binding.

parse_pipeline    a pipeline file, bound
bind_query        one SELECT over given streams
parse_statements  a pipeline file, parsed only; then `bind_select` each SELECT once columns are known
"""

from watersmeet.sql.binding.bind import (
    Infer,
    Statements,
    bind_query,
    bind_select,
    parse_pipeline,
    parse_statements,
)
from watersmeet.sql.syntax.declare import StreamDeclaration
from watersmeet.sql.syntax.parse import Select

__all__ = [
    "Infer",
    "Select",
    "Statements",
    "StreamDeclaration",
    "bind_query",
    "bind_select",
    "parse_pipeline",
    "parse_statements",
]
