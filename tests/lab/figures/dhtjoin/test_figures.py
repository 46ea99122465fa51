"""DHTJoin's figures at their quick sizes: the claims of the extended version hold, or we say why not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.dhtjoin.completeness import Sizing, count_answers
from watersmeet.lab.figures.dhtjoin.extended import grows
from watersmeet.lab.figures.dhtjoin.traffic import TrafficTask, measure_traffic, run_dhtjoin
from watersmeet.lab.figures.dhtjoin.workload import Workload, query_arrivals, statistics, tuple_arrivals
from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.registry import run_figure
from watersmeet.lab.simulation import SECOND_US, zipf_shares
from watersmeet.oracle.oracle import emitted
from watersmeet.plan.sizing.completeness import completeness

SMALL = Workload(nodes=32, duration_s=40, tuples_per_s=10, window_s=10, domain=20, queries_per_s=0.05, seed=3)


def claims_of(name: str, seed: int = 1) -> tuple[FigureResult, dict[str, Claim]]:
    result = run_figure(name, quick=True, seed=seed)
    assert result.figure == name
    assert all(len(series.x) == len(series.y) > 1 for panel in result.panels for series in panel.series)
    return result, {claim.text: claim for claim in result.claims}


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
        workload = Workload(duration_s=300)
        values = [value for arrival in tuple_arrivals(workload) for value in arrival.tuple_.values.values()]
        expected = zipf_shares(workload.domain, workload.zipf)
        assert values.count(0) / len(values) == pytest.approx(expected[0], rel=0.05)
        assert values.count(9) / len(values) == pytest.approx(expected[9], rel=0.2)

    @pytest.mark.parametrize(("query_type", "shape"), [(1, "type 1"), (2, "type 2")])
    def test_queries_have_the_shape_asked_for(self, query_type: int, shape: str) -> None:
        queries = query_arrivals(Workload(query_type=query_type, joins=3, queries_per_s=0.1))
        assert {query.query.graph.shape for query in queries} == {shape}
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
        run = run_dhtjoin(workload)
        arrivals = list(tuple_arrivals(workload))
        for asked in query_arrivals(workload):
            seen = {
                stream.name: [
                    one.tuple_ for one in arrivals if one.stream == stream.name and one.at_us >= asked.at_us
                ]
                for stream in asked.query.streams
            }
            assert sorted(run.answers[asked.qid]) == sorted(emitted(asked.query, seen))

    def test_the_planner_knows_the_rates(self) -> None:
        assert statistics(Workload()).stream("r0").rate_per_s == 3.0


class TestFigure4:
    """Section 6.1: DHTJoin's traffic is below RJoin's, whatever the rates and the number of joins."""

    @pytest.mark.parametrize("name", ["dhtjoin-4a", "dhtjoin-4b", "dhtjoin-4c"])
    def test_claims_hold(self, name: str) -> None:
        result, claims = claims_of(name)
        assert [claim.text for claim in claims.values() if not claim.holds] == []
        assert result.parameters["answers"][0] > 0

    def test_both_methods_are_charged_for_every_hop_but_those_of_answers(self) -> None:
        traffic = measure_traffic(TrafficTask(SMALL))
        assert set(traffic.dhtjoin) == {"disseminate", "index tuple"}
        assert traffic.dhtjoin["disseminate"] == traffic.queries * (SMALL.nodes - 1)
        assert "answer" not in traffic.rjoin
        assert traffic.dhtjoin_total < traffic.rjoin_total

    def test_a_line_that_falls_does_not_grow(self) -> None:
        assert grows("up", [1.0, 2.0, 1.99]).holds
        assert not grows("up", [1.0, 3.0, 2.0]).holds
        assert not grows("up", [2.0, 2.0]).holds


def test_figure_5_alerts_save_messages() -> None:
    """Section 6.2: the longer a source is inactive, the more alerts save."""
    _, claims = claims_of("dhtjoin-5")
    assert all(claim.holds for claim in claims.values())


@pytest.mark.variant
def test_figure_6_gossip_completes_coverage() -> None:
    """Section 6.3: with gossip, coverage stays at 100% in spite of failures."""
    _, claims = claims_of("dhtjoin-6")
    assert all(claim.holds for claim in claims.values())


class TestCompleteness:
    """Section 5: equation (11) against what is found."""

    @pytest.mark.variant
    def test_the_figure_says_where_the_equation_holds(self) -> None:
        _, claims = claims_of("dhtjoin-completeness")
        failing = [claim for claim in claims.values() if not claim.holds]
        assert all("equation (12)" in claim.text and claim.why for claim in failing)
        assert len(claims) == 6

    def test_enough_memory_finds_everything(self) -> None:
        enough = Sizing(nodes=4, memory_tuples=400, ways=2, tuples_per_s=40, windows=2)
        whole = count_answers(Sizing(nodes=4, memory_tuples=None, ways=2, tuples_per_s=40, windows=2))
        assert completeness(enough.demands(), 4) == 1
        assert count_answers(enough) == whole > 0

    def test_the_answers_there_are_do_not_depend_on_the_number_of_nodes(self) -> None:
        counts = {
            count_answers(Sizing(nodes=n, memory_tuples=None, ways=2, tuples_per_s=20, windows=2))
            for n in (1, 3, 10)
        }
        assert len(counts) == 1

    def test_half_the_memory_finds_a_quarter_where_arrivals_must_be_stored(self) -> None:
        sizing = Sizing(nodes=4, memory_tuples=50, shedding="newcomer", ways=2, tuples_per_s=40, windows=4)
        whole = count_answers(Sizing(nodes=4, memory_tuples=None, ways=2, tuples_per_s=40, windows=4))
        assert completeness(sizing.demands(), 4) == pytest.approx(0.25)
        assert count_answers(sizing) / whole == pytest.approx(0.25, abs=0.07)

    def test_the_gap_to_the_equation_closes_as_windows_and_memories_grow(self) -> None:
        """Where memory nearly suffices, chance decides which node overflows; large numbers even it out."""

        def gap(rate: int, memory: int) -> float:
            sizing = Sizing(
                nodes=23, memory_tuples=memory, shedding="newcomer", ways=2, tuples_per_s=rate, windows=2
            )
            whole = count_answers(Sizing(nodes=1, memory_tuples=None, ways=2, tuples_per_s=rate, windows=2))
            return completeness(sizing.demands(), sizing.nodes) - count_answers(sizing) / whole

        # Four times the tuples halve the relative spread of the nodes' loads, and so, about, the gap.
        assert gap(100, 40) > 1.5 * gap(400, 160) > 0
