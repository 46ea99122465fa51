"""Skewed values: Zipf's probabilities and draws."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from watersmeet.lab.simulation import Zipf, zipf_shares


def test_zipf_probabilities_follow_the_rank() -> None:
    shares = zipf_shares(100, 0.9)
    assert sum(shares) == pytest.approx(1)
    assert shares[0] / shares[9] == pytest.approx(10**0.9)


def test_draws_follow_the_probabilities() -> None:
    zipf, rng = Zipf(100, 0.9), random.Random(1)
    drawn = Counter(zipf.draw(rng) for _ in range(20_000))
    shares = zipf_shares(100, 0.9)
    assert [drawn[rank] / 20_000 for rank in range(5)] == pytest.approx(list(shares[:5]), rel=0.1)
