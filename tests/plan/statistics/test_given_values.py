"""Given selectivities as values."""

from __future__ import annotations

import pytest

from tests.plan.joins import join_query
from watersmeet.plan.statistics.given_values import given_as_values
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics

QUERY = join_query("rs", [("r", "s")])
GIVEN = {frozenset({"r.c0", "s.c0"}): 0.02}


def test_two_unmeasured_columns_have_as_many_values_as_their_selectivity_says() -> None:
    statistics = Statistics(selectivities=GIVEN)
    found = given_as_values(QUERY, statistics)
    assert [found.attribute(name, "c0").distinct for name in "rs"] == [50.0, 50.0]
    assert found.selectivities == {}
    assert rate_model(QUERY, found).rate(3) == pytest.approx(rate_model(QUERY, statistics).rate(3))


def test_beside_a_measured_column_a_selectivity_stays_a_correction() -> None:
    measured = StreamStatistics(attributes={"c0": AttributeStatistics(distinct=7.0)})
    statistics = Statistics({"r": measured}, selectivities=GIVEN)
    assert given_as_values(QUERY, statistics) == statistics
