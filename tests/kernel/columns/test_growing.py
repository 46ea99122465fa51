"""Row numbers in runs are those that were put, however they come."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.columns.growing import RowNumbers

# What is between two rows: nothing mostly, or a gap, or a step back.
STEPS = st.lists(st.one_of(st.just(1), st.just(1), st.integers(-3, 5)), min_size=1, max_size=400)


@given(st.lists(STEPS, min_size=1, max_size=5), st.sampled_from([0, 1 << 33]))
def test_rows_come_back_as_they_were_put(parts: list[list[int]], first_row: int) -> None:
    numbers, rows, known = RowNumbers(first_row), first_row + 5000, []
    for steps in parts:
        new = rows + np.cumsum(steps)
        numbers.put(len(known), new)
        known += new.tolist()
        rows = known[-1]
    everywhere = np.random.default_rng(len(known)).permutation(len(known))
    assert numbers.of(everywhere).tolist() == [known[place] for place in everywhere]


def test_rows_in_a_row_take_no_memory_and_scattered_ones_half_a_word() -> None:
    runs, scattered = RowNumbers(), RowNumbers()
    for start in range(0, 10_000, 1000):
        runs.put(start, np.arange(7 + start, 1007 + start))
        scattered.put(start, 3 * np.arange(start, start + 1000))
    assert runs.used(10_000) == 16
    assert scattered.used(10_000) == 4 * 10_000
