"""A stage as Spark is given it: a small object that loads the kernel only when rows arrive.

Whenever a query starts, Spark runs a new Python process for each of its stages, just to learn which state
variables the stage has. Loading the kernel, Arrow and pandas there would take most of that process's time, so
this module must import none of them; `tests/spark/stages/test_shipped_stage.py` checks that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from watersmeet.spark.stages.state_map import declare_map

if TYPE_CHECKING:
    import pandas as pd

    from watersmeet.spark.stages.bucket_stage import BucketStage


def ship_stage(stage: StatefulProcessor) -> ShippedStage:
    """The stage in the form that travels to the driver's helper processes and to the workers."""
    return ShippedStage(cloudpickle.dumps(stage))  # type: ignore[no-untyped-call]


class ShippedStage(StatefulProcessor):
    """Declares the state of a stage at once, and unpickles the stage when it is first called."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._map = declare_map(handle)
        self._stage: BucketStage[Any, Any, Any, Any] | None = None

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """One micro-batch of one bucket, by the stage itself."""
        if self._stage is None:
            self._stage = cloudpickle.loads(self._pickled)
            self._stage.open(self._map)
        return self._stage.handleInputRows(key, rows, timerValues)

    def close(self) -> None:
        """Nothing to close: state belongs to Spark, the cache to the worker."""
