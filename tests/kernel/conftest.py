"""Slices of a few tuples are trimmed too, so that small random cases see it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from watersmeet.kernel import slice as slices


@pytest.fixture(scope="session", autouse=True)
def _small_slices_are_trimmed() -> Iterator[None]:
    usual, slices.WORTH_TRIMMING = slices.WORTH_TRIMMING, 1
    yield
    slices.WORTH_TRIMMING = usual
