"""RJoin's workload (EDBT 2008, section 8)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.rjoin.workload import Workload


def test_workload_queries_are_chains_of_different_relations() -> None:
    for query in Workload(ways=6, seed=2).queries(50):
        assert len(set(query.graph.aliases)) == 6
        assert query.graph.is_connected
        for left, right in zip(query.graph.aliases, query.graph.aliases[1:], strict=False):
            assert any({left, right} <= set(cls.aliases) for cls in query.graph.classes)


def test_workload_repeats_with_its_seed() -> None:
    def drawn(seed: int) -> Any:
        workload = Workload(seed=seed)
        return list(workload.tuples(20)), [query.pretty() for query in workload.queries(5)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_relations_may_be_equally_frequent_while_values_are_skewed() -> None:
    workload = Workload(theta=0.9, relation_theta=0.0, value_order="shared")
    drawn = list(workload.tuples(2000))
    frequent = Counter(stream.name for stream, _ in drawn)
    assert max(frequent.values()) < 1.5 * min(frequent.values())
    first = Counter(values[0] for _, values in drawn)
    assert first[0] > 4 * first[9]


def test_a_chain_cannot_have_more_relations_than_there_are() -> None:
    with pytest.raises(ConfigurationError, match="2 to 10"):
        Workload(ways=11)
