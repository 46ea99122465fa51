"""SQL text into the query model: the CQL dialect, declarations and binding.

parse_pipeline    a pipeline file, bound
bind_query        one SELECT over given streams
bind_stream       the view that a SELECT is
parse_statements  a pipeline file, parsed only; then `bind_select` each SELECT once columns are known
split_statements  the statements of a text as they are written, with their names
"""

from watersmeet.sql.binding import (
    Infer,
    Statements,
    bind_query,
    bind_select,
    bind_stream,
    bind_views,
    parse_pipeline,
    parse_statements,
)
from watersmeet.sql.syntax import (
    Select,
    Source,
    StreamDeclaration,
    Written,
    check_dead_letters,
    split_statements,
)

__all__ = [
    "Infer",
    "Select",
    "Source",
    "Statements",
    "StreamDeclaration",
    "Written",
    "bind_query",
    "bind_select",
    "bind_stream",
    "bind_views",
    "check_dead_letters",
    "parse_pipeline",
    "parse_statements",
    "split_statements",
]
