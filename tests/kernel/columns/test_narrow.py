"""Chunks come back from the state store as they were, in fewer bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.columns.narrow import narrowed, widened
from watersmeet.spark.exchange.packed_chunk import decode, encode

WORDS = st.integers(-(2**63), 2**63 - 1)


@given(low=WORDS, spans=st.lists(st.integers(0, 2**34), min_size=1, max_size=20), nulls=st.booleans())
def test_whatever_the_range_a_chunk_comes_back_as_it_was(low: int, spans: list[int], nulls: bool) -> None:
    words = [min(low + span, 2**63 - 1) for span in spans]
    columns = {
        "word": pa.array(words),
        "instant": pa.array(words, pa.timestamp("us", tz="UTC")),
        "naive": pa.array(words, pa.timestamp("us")),
        "extremes": pa.array([-(2**63), 2**63 - 1] * len(words))[: len(words)],
        "some": pa.array([None if nulls else word for word in words], pa.int64()),
        "other": pa.array([str(word) for word in words]),
        "real": pa.array([float(word) for word in words]),
    }
    batch = pa.record_batch(columns, metadata={"kept": "too"})
    for part in (batch, batch.slice(len(words) // 2)):
        if part.num_rows:
            back = widened(decode(encode(narrowed(part, 1))))
            assert back.equals(part, check_metadata=True)


@pytest.mark.parametrize(
    ("span", "nbytes"), [(0xFF, 1), (0x100, 2), (0xFFFF, 2), (0x10000, 4), (2**32 - 1, 4), (2**32, 8)]
)
def test_a_column_takes_the_bytes_of_its_range(span: int, nbytes: int) -> None:
    rows = 1000
    words = np.full(rows, -7)
    words[-1] += span
    assert narrowed(pa.record_batch({"word": pa.array(words)}), 1).nbytes == rows * nbytes


def test_a_small_chunk_is_left_as_it_is() -> None:
    batch = pa.record_batch({"word": pa.array([1, 2, 3])})
    assert narrowed(batch, 4) is batch
