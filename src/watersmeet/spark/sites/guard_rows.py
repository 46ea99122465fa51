"""Which rows take a send, where the value of an attribute decides."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.plan.sites.site_program import Guard
from watersmeet.plan.sites.value_router import ValueRouter
from watersmeet.query.values import canonical


def partitions_of(router: ValueRouter, values: pa.Array) -> npt.NDArray[np.int64]:
    """The partition of each value; a value that comes often is looked up once, unless it is nested."""
    if pa.types.is_nested(values.type):
        return np.array([router.partition_of(canonical(value)) for value in values.to_pylist()], np.int64)
    encoded = values.dictionary_encode()
    known = [router.partition_of(canonical(value)) for value in encoded.dictionary.to_pylist()]
    return np.asarray(np.array(known, np.int64)[np.asarray(encoded.indices)], np.int64)


def passes(guard: Guard, values: pa.Array) -> pa.Array:
    """A mask of the rows whose value lies in the guard's partitions."""
    found = partitions_of(guard.router, values)
    return pa.array(np.isin(found, sorted(guard.partitions)))
