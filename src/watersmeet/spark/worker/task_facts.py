"""What a task knows of the streaming query it belongs to."""

from __future__ import annotations

from pyspark import TaskContext


def query_id() -> str | None:
    """The id of the streaming query, the same after a restart from its checkpoint; None outside of one."""
    return _local("sql.streaming.queryId")


def run_id() -> str | None:
    """The id of this run of the streaming query, another after a restart; None outside of one."""
    return _local("spark.jobGroup.id")


def known_batch() -> int | None:
    """The number of the micro-batch; None outside of one."""
    number = _local("streaming.sql.batchId")
    return None if number is None else int(number)


def _local(name: str) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty(name) if context else None
