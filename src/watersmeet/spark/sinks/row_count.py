"""How many rows a batch has, counted while it is written: no second execution."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

PATIENCE_S = 5.0  # Spark reports the count through a queue that may drop what it holds
_POLL_S = 0.001

RowCount = Callable[[], int | None]


def counted(rows: DataFrame) -> tuple[DataFrame, RowCount]:
    """The rows to write, and what tells their number afterwards; None if Spark has not reported it."""
    observation = Observation()
    watched = rows.observe(observation, F.count(F.lit(1)).alias("rows"))

    def count() -> int | None:
        reported: Any = observation._jo
        deadline = time.monotonic() + PATIENCE_S
        while not reported.future().isCompleted():
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_S)
        return int(observation.get["rows"])

    return watched, count
