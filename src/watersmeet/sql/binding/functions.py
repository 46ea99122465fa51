"""Refuses functions that reach beyond the row: into the JVM, the disk, the server; and those that make rows.

Two rules, and decision 018 has the reasons. A query that a person runs by themselves may call any function,
their own among them, except those of `REACHING` and `MAKING_ROWS`. A query of a shared dataflow runs in a
server that is not its author's: it may call Spark's own functions alone, less those of `OF_THE_SERVER`, and
what it computes must be of a bounded length (`limits/`).
"""

from __future__ import annotations

from sqlglot import exp

from watersmeet.errors import SqlError
from watersmeet.sql.binding.calls import Call, find_calls
from watersmeet.sql.binding.limits.refuse_unlimited import refuse_unlimited
from watersmeet.sql.binding.spark_functions import SPARK_FUNCTIONS
from watersmeet.sql.syntax.parse import Select
from watersmeet.sql.syntax.refuse import Source, span_of, suggest

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
EXPLODING = ("explode", "explode_outer")  # in a view
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


def refuse_functions(select: Select, *, shared: bool, is_view: bool = False) -> None:
    """Refuses a SELECT that calls what it may not; `shared` if it is for a shared dataflow."""
    in_views = _exploding(select.tree, is_view=is_view)
    for call in find_calls(select):
        if call.name in REACHING:
            raise _refuse(select.source, call, REACHING[call.name], "Compute it in the stream's source.")
        if call.name in MAKING_ROWS and call.span.start not in in_views:
            raise _refuse(
                select.source,
                call,
                "makes rows of its own, and an answer is one row",
                "Explode the column before the join, in a view: CREATE VIEW v AS SELECT explode(c) AS n ...",
            )
        if shared:
            _refuse_shared(select.source, call)
    for node in select.tree.find_all(exp.Anonymous):
        _refuse_sliding(select.source, node)
    if shared:
        refuse_unlimited(select)


def _exploding(tree: exp.Expr, *, is_view: bool) -> set[int]:
    """Where explode stands in views: in their SELECT lists and after LATERAL VIEW."""
    found: set[int] = set()
    for select in tree.find_all(exp.Select):
        if select is tree and not is_view:
            continue
        made = [each.this if isinstance(each, exp.Alias) else each for each in select.expressions]
        made += [lateral.this for lateral in select.args.get("laterals") or []]
        calls = (each for each in made if isinstance(each, exp.Anonymous) and each.name.lower() in EXPLODING)
        found.update(span_of(call).start for call in calls)
    return found


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
