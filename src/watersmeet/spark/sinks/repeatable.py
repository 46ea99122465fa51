"""Whether answers are the same when their batch is done again, as far as Spark knows.

The language refuses Spark's own functions by name (`sql/binding/repeatable.py`); Spark also knows of a user's
function whether it was registered as not deterministic.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

UNREPEATABLE = (
    "it calls a function that is not deterministic, so a batch that is done again after a crash would give "
    "other answers, and the sink could not tell which it has already. Use a function of its arguments alone"
)


def is_repeatable(rows: DataFrame) -> bool:
    """Whether every expression in the plan of these rows is deterministic."""
    plan: Any = rows._jdf
    return bool(plan.queryExecution().analyzed().deterministic())
