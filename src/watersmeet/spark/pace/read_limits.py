"""The limits of the sources of a streaming query that runs, changed from one micro-batch to the next.

Spark asks each source for its limit when a query starts, and hands it back to the source whenever it plans a
batch. In between the limits are in a map of the running query (`StreamExecution.uniqueSources`), which is no
public interface, so everything here may turn out not to be there: then the limits stay as they were declared,
and `ReadLimits.change` says so by returning False. A limit concerns batches that are planned later. Whatever
it is, offsets are logged, replayed and committed as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
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
                    changed = changed.updated(source, self._read_limit(limits[name], allowed[name]))
            getattr(execution, "uniqueSources_$eq")(changed)
        except (Py4JError, AttributeError, TypeError):
            return False
        self._allowed = dict(allowed)
        return True

    def _read_limit(self, limit: BatchLimit, amount: int) -> Any:
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        assert context is not None, "the query runs in it"
        jvm: Any = context._jvm
        kinds = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
        if limit.in_rows:
            return kinds.maxRows(amount)
        return kinds.maxBytes(amount) if amount else kinds.maxFiles(0)  # a limit in bytes takes one at least
