"""Drawn tuples have the rates and values that a model describes."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.lab.figures.pmjoin.costs import Setting
from watersmeet.lab.wan.draws import draw_arrivals


def test_drawn_tuples_have_the_models_rates_and_values() -> None:
    join = Setting(streams=3, values=20, rates_per_s=(50.0, 100.0), seed=6).join()
    arrivals = list(draw_arrivals(join.query, join.model, 40.0, np.random.default_rng(0)))
    assert [one.at_us for one in arrivals] == sorted(one.at_us for one in arrivals)
    for number, source in enumerate(join.model.sources):
        values = [one.tuple_.keys[0] for one in arrivals if one.input == number]
        assert len(values) == pytest.approx(source.rate_per_s * 40, abs=1)
        shares = join.model.attributes[0].groups.shares[number]
        counts = np.bincount([int(str(value)) for value in values], minlength=21)[1:]
        assert np.abs(counts / len(values) - shares).max() < 0.04
