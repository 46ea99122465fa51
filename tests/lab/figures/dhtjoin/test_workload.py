"""The workload of DHTJoin's experiments (extended version, section 6)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.lab.compared import Compared
from tests.lab.figures.dhtjoin.small import SMALL
from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.dhtjoin.traffic import run_dhtjoin
from watersmeet.lab.figures.dhtjoin.workload import Workload, query_arrivals, statistics, tuple_arrivals
from watersmeet.lab.simulation import SECOND_US, zipf_shares
from watersmeet.oracle.oracle import emitted


class TestWorkload:
    """Section 6: data and query generation."""

    def test_the_same_seed_gives_the_same_workload(self) -> None:
        assert list(tuple_arrivals(SMALL)) == list(tuple_arrivals(SMALL))
        assert query_arrivals(SMALL) == query_arrivals(SMALL)

    def test_tuples_come_at_a_constant_rate_and_in_order(self) -> None:
        arrivals = list(tuple_arrivals(SMALL))
        assert len(arrivals) == 400
        assert {b.at_us - a.at_us for a, b in pairwise(arrivals)} == {SECOND_US // 10}

    def test_tuples_of_a_relation_enter_at_one_node(self) -> None:
        entries = {(arrival.stream, arrival.node) for arrival in tuple_arrivals(SMALL)}
        assert len(entries) == SMALL.relations

    def test_attributes_may_have_frequent_values_of_their_own(self) -> None:
        own = replace(SMALL, domain=50, duration_s=400, value_order="per attribute")
        drawn: dict[tuple[str, str], Counter[int]] = {}
        for arrival in tuple_arrivals(own):
            for column, value in arrival.tuple_.values.items():
                drawn.setdefault((arrival.stream, column), Counter())[value] += 1
        favourites = {counts.most_common(1)[0][0] for counts in drawn.values()}
        assert len(favourites) > 20
        assert all(set(counts) <= set(range(50)) for counts in drawn.values())
        share = zipf_shares(50, own.zipf)[0]
        tops = [counts.most_common(1)[0][1] / counts.total() for counts in drawn.values()]
        assert sum(tops) / len(tops) == pytest.approx(share, rel=0.2)

    def test_values_are_skewed_as_zipf_says(self) -> None:
        workload = Workload(duration_s=150)
        values = [value for arrival in tuple_arrivals(workload) for value in arrival.tuple_.values.values()]
        expected = zipf_shares(workload.domain, workload.zipf)
        assert values.count(0) / len(values) == pytest.approx(expected[0], rel=0.05)
        assert values.count(9) / len(values) == pytest.approx(expected[9], rel=0.2)

    @pytest.mark.parametrize(("query_type", "kind"), [(1, "type 1"), (2, "type 2")])
    def test_queries_are_of_the_type_asked_for(self, query_type: int, kind: str) -> None:
        queries = query_arrivals(Workload(query_type=query_type, joins=3, queries_per_s=0.1))
        assert {query.query.graph.shape for query in queries} == {kind}
        assert {len(query.query.inputs) for query in queries} == {4}
        assert 15 < len(queries) < 50

    def test_what_cannot_be_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="10 joins need 11 of 10 relations"):
            Workload(joins=10)
        with pytest.raises(ConfigurationError, match="type 1 or 2"):
            Workload(query_type=3)

    @pytest.mark.parametrize("query_type", [1, 2])
    def test_the_answers_of_a_workload_are_the_oracles(self, query_type: int) -> None:
        workload = Workload(**{**vars(SMALL), "query_type": query_type})
        run, compared = run_dhtjoin(workload), Compared()
        arrivals = list(tuple_arrivals(workload))
        for asked in query_arrivals(workload):
            seen = {
                stream.name: [
                    one.tuple_ for one in arrivals if one.stream == stream.name and one.at_us >= asked.at_us
                ]
                for stream in asked.query.streams
            }
            compared.same(run.answers[asked.qid], emitted(asked.query, seen))
        compared.assert_answers(0.5)

    def test_the_planner_knows_the_rates(self) -> None:
        assert statistics(Workload()).stream("r0").rate_per_s == 3.0
