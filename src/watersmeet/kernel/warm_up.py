"""Loads (or, the first time on a machine, compiles) the kernel's loops before they are needed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.kernel.batch_input import BatchInput
from watersmeet.kernel.bucket import BucketPlan, JoinBucket
from watersmeet.kernel.layout import TS, InputLayout, JoinLayout
from watersmeet.kernel.progress.watermark import LatenessPolicy, Punctuation
from watersmeet.kernel.routing.grid import Grid, route
from watersmeet.query import range_us

_KEYS = {"bigint": pa.array([1, 2]), "string": pa.array(["a", "b"])}


def warm_up() -> None:
    """Joins a handful of tuples by keys of the usual types."""
    for key in _KEYS.values():
        inputs = tuple(InputLayout(alias, range_us(10), ((0, "__key0"),), ()) for alias in "ab")
        bucket = JoinBucket(BucketPlan(JoinLayout(inputs, False), {"s": LatenessPolicy()}))
        batch = pa.record_batch({TS: pa.array(np.arange(2)), "__key0": key})
        parts = [part for _, part in route(Grid((2,)), inputs[0], batch)]
        for part in parts:
            list(bucket.step(BatchInput({"a": part, "b": part}, Punctuation({"s": 1}))))
