"""A shared dataflow on its way to the workers.

It travels with the tasks, packed, and a worker unpacks it once: that takes longer than a task with thousands
of queries. Nothing of it is left behind when the queries change. Spark turns a function of more than a
megabyte into a broadcast variable, and a stateful stage fails with those, since the process in which Spark
first initialises it has none (Spark 4.3). So our sessions raise that threshold; packed, a thousand different
queries take 150 kB.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import zlib
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.query.shared_dataflow import SharedDataflow

THRESHOLD = "spark.broadcast.UDFCompressionThreshold"
_ROOM = 64 << 10  # for what travels beside a dataflow


@dataclass(frozen=True)
class ShippedDataflow:
    """A dataflow in the form that travels; `digest` tells dataflows apart."""

    digest: str
    packed: bytes = field(compare=False, repr=False)

    @property
    def dataflow(self) -> SharedDataflow:
        return _unpack(self)


def ship_inline(dataflow: SharedDataflow) -> ShippedDataflow:
    """The dataflow with every task, whatever its size."""
    blob = pickle.dumps(dataflow)
    return ShippedDataflow(hashlib.sha256(blob).hexdigest()[:16], zlib.compress(blob))


def ship_dataflow(spark: SparkSession, dataflow: SharedDataflow) -> ShippedDataflow:
    """Makes a dataflow known to all workers, present and future."""
    shipped = ship_inline(dataflow)
    context, needed = spark.sparkContext, len(shipped.packed) + _ROOM
    jvm: Any = context._jvm
    if needed > jvm.PythonUtils.getBroadcastThreshold(context._jsc):
        raise ConfigurationError(
            f"{len(dataflow.tails)} queries take {needed} bytes on their way to workers, and this session "
            f"sends less: start it with --conf {THRESHOLD}={2 * needed}, or run fewer queries in one dataflow"
        )
    return shipped


@functools.lru_cache(maxsize=2)
def _unpack(shipped: ShippedDataflow) -> SharedDataflow:
    dataflow: SharedDataflow = pickle.loads(zlib.decompress(shipped.packed))
    return dataflow
