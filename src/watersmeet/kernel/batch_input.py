"""What a bucket is fed with a micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.kernel.late_payload import LatePayload
from watersmeet.kernel.progress.row_numbers import RowPositions
from watersmeet.kernel.progress.watermark import Punctuation


@dataclass(frozen=True)
class BatchInput:
    """A micro-batch of a bucket, or a part of one: its tuples by alias, and the punctuation at its end.

    Behind a `NumberingBucket` the row positions just given, the watermark reached there and the bytes that
    wait there come along. `late_payload` is where columns are to be had that tuples only refer to. `received`
    are the combinations of parts of a tree that other stages join, by the numbers of these.
    """

    tuples: Mapping[str, pa.RecordBatch]
    punctuation: Punctuation = field(default_factory=Punctuation)
    positions: Mapping[str, RowPositions] = field(default_factory=dict)
    watermark: int | None = None
    waiting_bytes: int = 0
    late_payload: LatePayload | None = None
    is_last: bool = True  # False for a part of a batch of which more is to come
    received: Mapping[int, Sequence[pa.RecordBatch]] = field(default_factory=dict)
