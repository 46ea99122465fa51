"""Message delays: within their bound, repeatable."""

from __future__ import annotations

import random

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.lab.simulation import NO_DELAY, Delay, constant_delay, random_delay


def test_delays_stay_within_their_bound_and_repeat_with_the_seed() -> None:
    assert NO_DELAY.over(9, random.Random(0)) == 0
    assert constant_delay(4).over(3, random.Random(0)) == 12
    drawn = [random_delay(10).over(1, random.Random(seed)) for seed in range(200)]
    assert min(drawn) == 0
    assert max(drawn) == 10
    assert drawn == [random_delay(10).over(1, random.Random(seed)) for seed in range(200)]


@pytest.mark.parametrize(("kind", "bound"), [("none", 3), ("constant", -1), ("sometimes", 1)])
def test_impossible_delays_are_refused(kind: str, bound: int) -> None:
    with pytest.raises(ConfigurationError):
        Delay(kind, bound)  # type: ignore[arg-type]
