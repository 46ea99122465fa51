"""Thresholds that the few tuples of a generated case reach."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from watersmeet.kernel.columns import narrow
from watersmeet.kernel.state import slice as slices


@pytest.fixture(autouse=True, scope="module")
def small_thresholds() -> Iterator[None]:
    """Slices of any size are trimmed, and chunks of two rows and more are narrowed."""
    usual = slices.WORTH_TRIMMING, narrow.WORTH_ROWS
    slices.WORTH_TRIMMING, narrow.WORTH_ROWS = 1, 2
    yield
    slices.WORTH_TRIMMING, narrow.WORTH_ROWS = usual
