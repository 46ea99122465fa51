"""Initial probing sequences (DHTJoin, section 3.3.1)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.joins import TOPOLOGIES, edges, join_query, random_statistics
from watersmeet.errors import ConfigurationError
from watersmeet.plan.probing import ProbingSequence, plan_probing
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics


def statistics(rates: dict[str, float], distinct: float = 100) -> Statistics:
    """Streams of these rates whose columns all have the same number of values."""
    attributes = {f"c{n}": AttributeStatistics(distinct=distinct) for n in range(3)}
    return Statistics(
        {name: StreamStatistics(rate_per_s=rate, attributes=attributes) for name, rate in rates.items()}
    )


def test_each_input_probes_the_input_with_the_fewest_matches_first() -> None:
    """Under 10 s windows and 100 values, a tuple meets a tenth of the other stream's rate."""
    query = join_query("rst", ["rst"])
    found = plan_probing(query, statistics({"r": 20, "s": 30, "t": 1}))
    assert [(sequence.head, sequence.order) for sequence in found] == [
        ("r", ("t", "s")),
        ("s", ("t", "r")),
        ("t", ("r", "s")),
    ]
    assert found[0].fan_out == pytest.approx((0.1, 3.0))
    assert found[0].combinations == pytest.approx(0.1 + 0.1 * 3.0)
    assert found[0].pretty() == "r: t (x0.1), s (x3)"


def test_a_chain_is_probed_along_its_edges() -> None:
    """R cannot meet T before S, however few T has."""
    query = join_query("rst", ["rs", "st"])
    found = plan_probing(query, statistics({"r": 20, "s": 30, "t": 1}))
    assert [sequence.order for sequence in found] == [("s", "t"), ("t", "r"), ("s", "r")]


def test_ties_go_to_from_order() -> None:
    query = join_query("rst", ["rst"])
    found = plan_probing(query, statistics({"r": 5, "s": 5, "t": 5}))
    assert [sequence.order for sequence in found] == [("s", "t"), ("r", "t"), ("r", "s")]


@given(st.sampled_from(TOPOLOGIES), st.integers(2, 7), st.integers(0, 10**6))
def test_every_sequence_visits_each_other_input_once_along_the_join_graph(
    topology: str, count: int, seed: int
) -> None:
    aliases = [f"s{n}" for n in range(count)]
    query = join_query(aliases, edges(topology, aliases))
    known = random_statistics(query, random.Random(seed))
    rates = rate_model(query, known)
    found = plan_probing(query, known)
    assert [sequence.head for sequence in found] == aliases
    for sequence in found:
        assert sorted((sequence.head, *sequence.order)) == sorted(aliases)
        visited = [sequence.head]
        for alias, fan_out in zip(sequence.order, sequence.fan_out, strict=True):
            assert set(query.graph.neighbours(alias)) & set(visited)
            before, after = rates.mask(visited), rates.mask([*visited, alias])
            assert fan_out == pytest.approx(rates.window(after) / rates.window(before))
            for other in set(aliases) - set(visited):
                if set(query.graph.neighbours(other)) & set(visited):
                    rival = rates.window(rates.mask([*visited, other])) / rates.window(before)
                    assert fan_out <= rival * (1 + 1e-9)
            visited.append(alias)


def test_one_input_probes_nothing() -> None:
    assert plan_probing(join_query("r", []), Statistics()) == (ProbingSequence("r", (), ()),)


def test_separate_parts_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="separate parts: r, s; t"):
        plan_probing(join_query("rst", ["rs"]), Statistics())
