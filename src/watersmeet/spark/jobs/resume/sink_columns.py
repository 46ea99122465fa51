"""Whether a sink that holds answers with some columns can take answers with others."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import ConfigurationError
from watersmeet.query import Sink
from watersmeet.spark.session.connectors import FILE_FORMATS

Columns = Sequence[tuple[str, str]]  # names and Spark's types, in order

SCREEN = "console"
JSON = ("json", "kafka")  # every row names its columns
BY_NAME = ("parquet", "orc")  # every file does
ONE_TABLE = "postgres"
READ_ON = "answers"  # of queries that others read
ONCE = (*FILE_FORMATS, "memory", ONE_TABLE, READ_ON)  # a batch that is done again is there once


def take_columns(sink: Sink | None, old: Columns, new: Columns) -> str:
    """What readers of the sink should know of its new columns; refuses those that it cannot take.

    `old` are all columns that it may hold. Without a `sink` the answers are printed.
    """
    kind = sink.connector.format.lower() if sink is not None else SCREEN
    if sink is None or kind == SCREEN or list(old) == list(new):
        return ""
    known, what = dict(old), f"sink {sink.name}"
    other = [
        f"{name} was {known[name]}, and is {type_}" for name, type_ in new if known.get(name, type_) != type_
    ]
    if other:
        raise _refusal(what, f"a column there would have two types: {', '.join(other)}", "name it otherwise")
    respelt = [name for name, _ in new if name not in known and name.lower() in map(str.lower, known)]
    if respelt:
        raise _refusal(what, f"{', '.join(respelt)} is there in other letters", "spell it as before")
    added = [name for name, _ in new if name not in known]
    gone = [name for name in known if name not in dict(new)]
    if kind in JSON or (kind in BY_NAME and not added and not gone):
        return ""
    if kind in BY_NAME:
        return (
            f"{what} holds files with other columns from now on: read it with the option mergeSchema = true, "
            "which puts NULL where a file has no such column"
        )
    if kind == ONE_TABLE:
        if added:
            raise _refusal(what, f"the table has no column {', '.join(added)}", "leave them out")
        return f"{what}: {', '.join(gone)} will be NULL in new rows" if gone else ""
    advice = "select the same columns, of the same types, in the same order"
    raise _refusal(what, f"{kind} cannot hold answers with other columns beside the old ones", advice)


def refuse_half_a_batch(sink: Sink | None) -> None:
    """Refuses a sink in which the batch under way may be in part: it would hold answers of both queries."""
    kind = SCREEN if sink is None else sink.connector.format.lower()
    if sink is None or kind == SCREEN or kind in ONCE:
        return
    raise ConfigurationError(
        f"the query has changed while a batch was under way, and sink {sink.name} ({kind}) may have some of "
        "its answers already. End the batch first: restore the old query, run it with --available-now, then "
        "change it"
    )


def _refusal(what: str, why: str, advice: str) -> ConfigurationError:
    return ConfigurationError(
        f"the query has changed, and {what} cannot take its answers: {why}. In the SELECT list, {advice}; or "
        "give the changed query another sink and another checkpoint"
    )
