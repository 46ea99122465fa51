"""PMJoin's workload (DASFAA 2006, section 4)."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.lab.figures.pmjoin.workload import draw_shares, draw_values


def test_distributions_are_what_the_paper_says() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_shares("different", 1000, rng) for _ in range(60)]
    assert all(row.sum() == pytest.approx(1.0) and row.min() >= 0 for row in drawn)
    similar = [draw_shares("similar", 1000, rng) for _ in range(20)]
    skews = [np.log(row[0] / row[9]) / np.log(10) for row in similar]
    assert 0.1 <= min(skews) <= max(skews) <= 0.3
    falling = [row for row in drawn if row[0] > row[-1]]
    rising = [row for row in drawn if row[0] < row[-1] - 1e-12]
    assert falling
    assert rising, "self-similar with h above one half"


def test_a_random_hot_spot_keeps_similar_streams_similar() -> None:
    rng = np.random.default_rng(1)
    similar = draw_values("similar", "random", 3, 500, rng)
    assert {int(row.argmax()) for row in similar} == {int(similar[0].argmax())}
    contiguous = draw_values("similar", "contiguous", 3, 500, rng)
    assert all(np.all(np.diff(row) <= 0) for row in contiguous)
