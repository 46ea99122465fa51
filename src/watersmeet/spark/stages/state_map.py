"""The one state variable of a stage: a map of texts to bytes. `state_log.py` says what is in it."""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

LOG = "log"
_KEY = StructType([StructField("key", StringType())])
_VALUE = StructType([StructField("value", BinaryType())])


def declare_map(handle: StatefulProcessorHandle) -> MapState:
    """Tells Spark of the map, and returns it."""
    return handle.getMapState(LOG, _KEY, _VALUE)
