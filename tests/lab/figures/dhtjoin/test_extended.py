"""DHTJoin's figures (extended version, section 6) made small: the paper's claims hold, or we say why not."""

from __future__ import annotations

import pytest

from tests.lab.figures.dhtjoin.small import SMALL, small
from watersmeet.lab.figures import Claim, FigureResult, Runner, run_figure, run_here
from watersmeet.lab.figures.dhtjoin.traffic import TrafficTask, grows, measure_traffic


def claims_of(name: str, runner: Runner, seed: int = 1) -> tuple[FigureResult, dict[str, Claim]]:
    result = run_figure(name, quick=True, seed=seed, runner=runner)
    assert result.figure == name
    assert all(len(series.x) == len(series.y) > 1 for panel in result.panels for series in panel.series)
    return result, {claim.text: claim for claim in result.claims}


class TestFigure4:
    """Section 6.1: DHTJoin's traffic is below RJoin's, whatever the rates and the number of joins."""

    @pytest.mark.parametrize("name", ["dhtjoin-4a", "dhtjoin-4b", "dhtjoin-4c"])
    def test_claims_hold(self, name: str) -> None:
        result, claims = claims_of(name, small)
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


@pytest.mark.variant
@pytest.mark.parametrize("name", ["dhtjoin-4a", "dhtjoin-4b", "dhtjoin-4c", "dhtjoin-5"])
@pytest.mark.parametrize("seed", [0, 1])
def test_claims_hold_at_the_quick_size(name: str, seed: int) -> None:
    _, claims = claims_of(name, run_here, seed)
    assert [claim.text for claim in claims.values() if not claim.holds] == []


def test_figure_5_alerts_save_messages() -> None:
    """Section 6.2: the longer a source is inactive, the more alerts save."""
    _, claims = claims_of("dhtjoin-5", small)
    assert all(claim.holds for claim in claims.values())


@pytest.mark.variant
def test_figure_6_gossip_completes_coverage() -> None:
    """Section 6.3: with gossip, coverage stays at 100% in spite of failures."""
    _, claims = claims_of("dhtjoin-6", run_here)
    assert all(claim.holds for claim in claims.values())
