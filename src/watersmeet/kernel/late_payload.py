"""Payload that comes after the join, for the tuples that need it.

Wide columns cost more on their way to the join than the join itself, and of a large batch few tuples match or
outlive it. A chunk may therefore come with a reference for each tuple in place of some of its payload. Once
the batch is joined it is known which tuples are in answers and which stay; their payload is fetched, in one
go, and from then on the chunk is like any other. The payload of all other tuples is NULL, and never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.layout import REF, InputLayout


class LatePayload(Protocol):
    """Where late payload comes from: the only way on which a join asks for more than it was given."""

    def fetch(self, alias: str, names: Sequence[str], refs: npt.NDArray[np.int64]) -> list[pa.Array]:
        """These columns of an input at these references, in their order."""


def with_payload(
    layout: InputLayout, batch: pa.RecordBatch, needed: npt.NDArray[np.bool_], late: LatePayload
) -> pa.RecordBatch:
    """A chunk with all its columns; those that were late are NULL where they are not needed."""
    missing = [name for name in layout.columns if name not in batch.schema.names]
    refs = np.asarray(batch.column(REF))[needed]
    places = pa.array(np.cumsum(needed) - 1, mask=~needed)
    fetched = {
        name: values.take(places)
        for name, values in zip(missing, late.fetch(layout.alias, missing, refs), strict=True)
    }
    arrays = [fetched[name] if name in fetched else batch.column(name) for name in layout.columns]
    return pa.RecordBatch.from_arrays(arrays, list(layout.columns))
