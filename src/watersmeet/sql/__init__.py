"""SQL text into the query model: the CQL dialect, declarations and binding.

parse_pipeline    a pipeline file, bound
bind_query        one SELECT over given streams
bind_stream       the view that a SELECT is
bind_answers      the stream that the answers of a SELECT are
parse_statements  a pipeline file, parsed only; then `bind_select` each SELECT once columns are known
split_statements  the statements of a text as they are written, with their names
"""

from watersmeet.sql.binding import (
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
    "bind_answers",
    "bind_derived",
    "bind_query",
    "bind_select",
    "bind_stream",
    "check_dead_letters",
    "parse_pipeline",
    "parse_statements",
    "split_statements",
]
