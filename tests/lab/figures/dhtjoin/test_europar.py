"""The figures of Euro-Par 2008, section 4, made small: the paper's claims hold."""

from __future__ import annotations

import pytest

from tests.lab.figures.dhtjoin.small import SMALL, small
from watersmeet.lab.figures import Runner, run_figure, run_here
from watersmeet.lab.figures.dhtjoin.europar import GossipTask, run_gossip
from watersmeet.lab.figures.dhtjoin.traffic import TrafficTask, measure_traffic

FIGURES = [f"europar-{number}" for number in range(1, 7)]


def assert_claims_hold(name: str, seed: int, runner: Runner) -> None:
    result = run_figure(name, quick=True, seed=seed, runner=runner)
    assert result.figure == name
    assert all(len(series.x) == len(series.y) > 1 for panel in result.panels for series in panel.series)
    assert [claim.text for claim in result.claims if not claim.holds] == []


@pytest.mark.parametrize("name", FIGURES)
def test_claims_hold(name: str) -> None:
    assert_claims_hold(name, 0, small)


@pytest.mark.variant
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("seed", [0, 1])
def test_claims_hold_at_the_quick_size(name: str, seed: int) -> None:
    assert_claims_hold(name, seed, run_here)


def test_dissemination_by_gossip_is_part_of_the_traffic() -> None:
    """Section 4: the messages needed to index tuples and to disseminate queries."""
    traffic = measure_traffic(TrafficTask(SMALL, by_gossip=True))
    assert set(traffic.dhtjoin) == {"gossip", "index tuple"}
    assert traffic.dhtjoin_total == traffic.dhtjoin["gossip"] + traffic.dhtjoin["index tuple"]
    assert traffic.dhtjoin["gossip"] > traffic.queries * (SMALL.nodes - 1)


def test_on_rings_of_random_identifiers_m_opt_spares_much_as_well() -> None:
    """Section 3.3, measured where fingers of different nodes coincide less."""
    whole, spared = (run_gossip(GossipTask(10, fanout, full=False, seed=2)) for fanout in ("m", "m_opt"))
    assert spared.hops == whole.hops
    assert spared.hit_ratio == 1
    assert 0.4 < spared.redundant_per_node / whole.redundant_per_node < 0.7
