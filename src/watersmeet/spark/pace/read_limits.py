"""The limits of the sources of a streaming query that runs, changed from one micro-batch to the next.

Spark asks each source for its limit when a query starts, and hands it back to the source whenever it plans a
batch. In between the limits are in a map of the running query (`StreamExecution.uniqueSources`), which is no
public interface, so everything here may turn out not to be there: then the limits stay as they were declared,
and `ReadLimits.change` says so by returning False. A limit concerns batches that are planned later. Whatever
it is, offsets are logged, replayed and committed as ever.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.spark.sources.batch_limits import BatchLimit


class ReadLimits:
    """The limits of one query's sources; `streams` names the stream of each source, in order of the plan.

    None stands for a source that is not a stream. Where the plan does not have these sources, nothing can be
    changed.
    """

    def __init__(self, query: StreamingQuery, streams: Sequence[str | None]) -> None:
        self._query = query
        self._streams = tuple(streams)
        self._allowed: dict[str, int] = {}

    def change(self, limits: Mapping[str, BatchLimit], allowed: Mapping[str, int]) -> bool:
        """Lets each stream put so much into a batch, in the unit of its limit; 0 is nothing at all."""
        if dict(allowed) == self._allowed:
            return True
        try:
            execution: Any = self._query._jsq.streamingQuery()
            sources, present = execution.sources(), execution.uniqueSources()
            if sources.size() != len(self._streams):
                return False
            changed = present
            for number, name in enumerate(self._streams):
                source = sources.apply(number)
                if name is not None and name in allowed and present.contains(source):
                    limit = _moved(present.apply(source), limits[name], allowed[name])
                    changed = changed if limit is None else changed.updated(source, limit)
            getattr(execution, "uniqueSources_$eq")(changed)
        except (Py4JError, AttributeError, TypeError, ValueError):
            return False
        self._allowed = dict(allowed)
        return True


def _moved(present: Any, limit: BatchLimit, amount: int) -> Any:
    """A limit of the kind that the source has now, which it is sure to understand; None of other kinds."""
    context = SparkContext._active_spark_context
    assert context is not None, "the query runs in it"
    jvm: Any = context._jvm
    kinds = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
    match present.getClass().getSimpleName(), limit.in_rows:
        case "ReadMaxRows", True:
            return kinds.maxRows(amount)
        case (("ReadMaxBytes" | "ReadMaxFiles"), False):  # of files; a limit in bytes takes one at least
            return kinds.maxBytes(amount) if amount else kinds.maxFiles(0)
        case "PythonStreamingSourceReadLimit", True:
            fields = json.loads(present.json())
            return present.copy(json.dumps({**fields, "max_rows": amount})) if "max_rows" in fields else None
    return None
