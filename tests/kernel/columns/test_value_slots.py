"""Equal values have one slot, whatever their hashes, however they come."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.kernel.columns.hashing import next_hashes
from watersmeet.kernel.columns.value_slots import ValueSlots

Batches = list[list[int]]


def slots_of(batches: Batches, distinct_hashes: int) -> list[int]:
    """The slots of all values, in order, where values hash to so many numbers."""
    values = np.array([value for batch in batches for value in batch], np.int64)
    slots, found, start = ValueSlots(), list[int](), 0
    for batch in batches:
        rows = np.arange(start, start + len(batch))
        start += len(batch)
        hashes = next_hashes(values[rows].astype(np.uint64) % np.uint64(distinct_hashes))
        found += slots.of(hashes, rows, lambda some, others: values[some] == values[others]).tolist()
    assert slots.count == len(set(values.tolist()))
    return found


@pytest.mark.parametrize("distinct_hashes", [1, 2, 2**40])
def test_equal_values_have_one_slot(distinct_hashes: int, examples: Callable[[int], settings]) -> None:
    @given(st.lists(st.lists(st.integers(0, 12), max_size=30), max_size=6))
    @examples(40)
    def holds(batches: Batches) -> None:
        values = [value for batch in batches for value in batch]
        found = slots_of(batches, distinct_hashes)
        assert [found.index(slot) for slot in found] == [values.index(value) for value in values]

    holds()


def test_a_table_grows_with_its_values() -> None:
    batches = [list(range(start, start + 700)) for start in range(0, 7000, 350)]
    found = slots_of(batches, 2**40)
    assert found == [value for batch in batches for value in batch], (
        "numbered in the order in which they came"
    )
