"""The grammar: a SQL text into trees, declarations and windows that know where in the text they stand."""

from watersmeet.sql.syntax.declare import StreamDeclaration, check_dead_letters
from watersmeet.sql.syntax.parse import Select
from watersmeet.sql.syntax.refuse import Source
from watersmeet.sql.syntax.split import Written, split_statements

__all__ = ["Select", "Source", "StreamDeclaration", "Written", "check_dead_letters", "split_statements"]
