"""Summaries of frequent values: what they promise, merged or sampled."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.routing.heavy_hitters import Summary, merge, summarise

Chunks = list[list[int]]


@given(st.lists(st.lists(st.integers(0, 12), max_size=40), max_size=5), st.integers(1, 8))
def test_counts_are_never_too_large_and_not_much_too_small(chunks: Chunks, size: int) -> None:
    parts = [summarise(np.array(chunk, np.uint64), size) for chunk in chunks]
    merged = merge(parts, size)
    true = Counter(value for chunk in chunks for value in chunk)
    assert merged.total == sum(true.values())
    assert len(merged.counts) <= size
    for value, count in true.items():
        found = merged.counts.get(value, 0.0)
        assert count - merged.total / (size + 1) - 1e-9 <= found <= count + 1e-9


def test_the_example_in_the_module_holds() -> None:
    merged = merge([Summary(7, {1: 5.0, 2: 2.0}), Summary(3, {2: 1.0, 3: 2.0})], 2)
    assert merged == Summary(10, {1: 3.0, 2: 1.0})


def test_a_large_chunk_is_counted_from_a_sample_the_same_each_time() -> None:
    random = np.random.default_rng(1)
    keys = np.where(random.random(300_000) < 0.05, 7, random.integers(100, 2**60, 300_000)).astype(np.uint64)
    summary = summarise(keys, 32)
    assert summary.total == 300_000
    assert summary.counts[7] == pytest.approx(15_000, rel=0.15)
    assert summarise(keys, 32) == summary


def test_a_summary_fades_and_survives_being_written() -> None:
    summary = Summary(8, {2**63 + 1: 5.0, 2: 3.0}).scaled(0.5)
    assert summary == Summary(4, {2**63 + 1: 2.5, 2: 1.5})
    assert Summary.from_json(json.loads(json.dumps(summary.to_json()))) == summary
