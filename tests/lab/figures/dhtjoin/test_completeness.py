"""Completeness measured against equation (11) of DHTJoin's extended version, section 5."""

from __future__ import annotations

import pytest

from watersmeet.lab.figures import run_figure
from watersmeet.lab.figures.dhtjoin.completeness import Sizing, count_answers
from watersmeet.plan.sizing.completeness import completeness


class TestCompleteness:
    """Section 5: equation (11) against what is found."""

    @pytest.mark.variant
    def test_the_figure_says_where_the_equation_holds(self) -> None:
        claims = {
            claim.text: claim for claim in run_figure("dhtjoin-completeness", quick=True, seed=1).claims
        }
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
        """Where memory nearly suffices, loads that vary at random decide; larger numbers even them out."""

        def gap(rate: int, memory: int) -> float:
            sizing = Sizing(
                nodes=23, memory_tuples=memory, shedding="newcomer", ways=2, tuples_per_s=rate, windows=2
            )
            whole = count_answers(Sizing(nodes=1, memory_tuples=None, ways=2, tuples_per_s=rate, windows=2))
            return completeness(sizing.demands(), sizing.nodes) - count_answers(sizing) / whole

        # Four times the tuples halve the relative spread of the nodes' loads, and so, about, the gap.
        assert gap(50, 20) > 1.5 * gap(200, 80) > 0
