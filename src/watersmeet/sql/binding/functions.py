"""Refuses functions that reach beyond the row: into the JVM, the disk, the server; and those that make rows.

Two rules, and decision 018 has the reasons. A query that a person runs by themselves may call any function,
their own among them, except those of `REACHING` and `MAKING_ROWS`. A query of a shared dataflow runs in a
server that is not its author's: it may call Spark's own functions alone, less those of `OF_THE_SERVER`, and
it may not ask for text or arrays longer than `LONGEST`.
"""

from __future__ import annotations

import re

from sqlglot import exp

from watersmeet.errors import SqlError
from watersmeet.sql.binding.calls import Call, find_calls
from watersmeet.sql.binding.spark_functions import SPARK_FUNCTIONS
from watersmeet.sql.syntax.parse import Select
from watersmeet.sql.syntax.refuse import Source, suggest

# The first three are also taken out of the sessions we make: see `spark/session/functions.py`.
REACHING = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), "calls any method of the JVM that runs Spark"),
    "identifier": "makes a name out of text, which cannot be checked",
}
_GENERATORS = """
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
    variant_explode_outer session_window
"""
MAKING_ROWS = frozenset(_GENERATORS.split())
_DISK = "may read files of the server"
_SESSION = "says something about the server, not about the tuples"
OF_THE_SERVER = {
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"), _DISK),
    **dict.fromkeys(("from_xml", "schema_of_xml"), _DISK),
    **dict.fromkeys(("input_file_name", "input_file_block_start", "input_file_block_length"), _SESSION),
    **dict.fromkeys(("current_user", "session_user", "user", "version", "current_path"), _SESSION),
    **dict.fromkeys(("current_catalog", "current_database", "current_schema"), _SESSION),
    **dict.fromkeys(("spark_partition_id", "monotonically_increasing_id"), _SESSION),
    **dict.fromkeys(("python_worker_logs", "collations", "sql_keywords", "range"), _SESSION),
}
LONGEST = 10_000
_LENGTH_AT = {"repeat": 1, "space": 0, "lpad": 1, "rpad": 1, "array_repeat": 1, "randstr": 0}
_FORMATS = ("format_string", "printf", "format_number")
_WIDE = re.compile(r"\d{5}")


def refuse_functions(select: Select, *, shared: bool) -> None:
    """Refuses a SELECT that calls what it may not; `shared` if it is for a shared dataflow."""
    for call in find_calls(select):
        if call.name in REACHING:
            raise _refuse(select.source, call, REACHING[call.name], "Compute it in the stream's source.")
        if call.name in MAKING_ROWS:
            raise _refuse(
                select.source,
                call,
                "makes rows of its own, and an answer is one row",
                "Explode the column before the join, in the stream's source.",
            )
        if shared:
            _refuse_shared(select.source, call)
    for node in select.tree.find_all(exp.Anonymous):
        _refuse_sliding(select.source, node)
        if shared:
            _refuse_long(select.source, node)


def _refuse(source: Source, call: Call, why: str, advice: str) -> SqlError:
    return source.refuse(f"{call.name} is not allowed: it {why}", call.span, advice)


def _refuse_shared(source: Source, call: Call) -> None:
    if call.name in OF_THE_SERVER:
        where = f"{OF_THE_SERVER[call.name]}, and a shared dataflow serves many"
        raise _refuse(source, call, where, "Select columns of the streams, or run the query by itself.")
    if call.is_qualified or call.name not in SPARK_FUNCTIONS:
        written = source.quote(call.span)
        raise source.refuse(
            f"{written} is not one of Spark's own functions, and a shared dataflow takes no other",
            call.span,
            f"Write {call.name} without what is before it."
            if call.is_qualified and call.name in SPARK_FUNCTIONS
            else suggest(call.name, SPARK_FUNCTIONS, "function")
            if _is_close(call.name)
            else "To call a function of your own, run the query by itself.",
        )


def _is_close(name: str) -> bool:
    return suggest(name, SPARK_FUNCTIONS, "function").startswith("Did you mean")


def _refuse_sliding(source: Source, node: exp.Anonymous) -> None:
    if node.name.lower() == "window" and len(node.expressions) > 2:
        raise source.refuse(
            "a window that slides makes several rows of one, and an answer is one row",
            node,
            "Write the window on a stream, s [RANGE 10 MINUTES], and aggregate with EMIT EVERY.",
        )


def _refuse_long(source: Source, node: exp.Anonymous) -> None:
    """Refuses what makes text or an array as long as the query says, unless it says a small number."""
    name, arguments = node.name.lower(), node.expressions
    if name in _LENGTH_AT and len(arguments) > _LENGTH_AT[name]:
        is_small = _small(arguments[_LENGTH_AT[name]]) is not None
    elif name == "sequence" and len(arguments) >= 2:
        is_small = None not in [_small(argument) for argument in arguments[:2]]
    elif name in _FORMATS:
        is_small = not any(_WIDE.search(part.name) for part in node.find_all(exp.Literal))
    else:
        return
    if not is_small:
        raise source.refuse(
            f"{name} may only make up to {LONGEST:,} characters or elements in a shared dataflow",
            node,
            f"Write a number of at most {LONGEST}.",
        )
    for inner in node.find_all(exp.Anonymous):
        if inner is not node and (inner.name.lower() in _LENGTH_AT or inner.name.lower() == "sequence"):
            raise source.refuse(
                f"{inner.name} inside {name} multiplies their lengths", inner, "Write one of the two."
            )


def _small(node: exp.Expr) -> int | None:
    """A whole number as written, if it is one and not too large."""
    bare = node.unnest()
    sign = -1 if isinstance(bare, exp.Neg) else 1
    literal = bare.this if isinstance(bare, exp.Neg) else bare
    if not isinstance(literal, exp.Literal) or literal.is_string or not literal.name.isdigit():
        return None
    return sign * int(literal.name[:10]) if int(literal.name[:10]) <= LONGEST else None
