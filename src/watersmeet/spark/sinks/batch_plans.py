"""Of which input a batch is made, so that a sink can tell it from another batch of the same number.

A batch that is done again after a crash is the one that Spark's log describes: the same offsets, planned at
the same time. If the newest part of that log is gone, because an older copy of the checkpoint was put back or
the machine lost what it had not written to its disk, Spark plans the batch anew, and it may take more tuples
than the first. A sink that took it for the first would drop the answers of these.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pyspark.sql import SparkSession

from watersmeet.spark.storage.folder import Folder


@dataclass(frozen=True)
class BatchPlans:
    """What a checkpoint of Spark's says about the batches it has planned."""

    spark: SparkSession
    checkpoint: str

    def of(self, batch: int) -> str:
        """A digest of Spark's plan of a batch, which has the time of planning in it; "" if there is none."""
        text = Folder(self.spark, self.checkpoint).read(f"offsets/{batch}")
        return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]
