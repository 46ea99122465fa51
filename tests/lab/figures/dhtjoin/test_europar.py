"""The figures of Euro-Par 2008, section 4, at their quick sizes: the paper's claims hold."""

from __future__ import annotations

import pytest

from watersmeet.lab.figures.dhtjoin.europar import GossipTask, run_gossip
from watersmeet.lab.figures.registry import run_figure


@pytest.mark.parametrize("name", [f"europar-{number}" for number in range(1, 7)])
@pytest.mark.parametrize("seed", [0, 1])
def test_claims_hold(name: str, seed: int) -> None:
    result = run_figure(name, quick=True, seed=seed)
    assert result.figure == name
    assert all(len(series.x) == len(series.y) > 1 for panel in result.panels for series in panel.series)
    assert [claim.text for claim in result.claims if not claim.holds] == []


def test_dissemination_by_gossip_is_part_of_the_traffic() -> None:
    """Section 4: the messages needed to index tuples and to disseminate queries."""
    result = run_figure("europar-2", quick=True, seed=1)
    traffic, by_purpose = ({series.name: series.y for series in panel.series} for panel in result.panels)
    total, gossip, tuples = traffic["DHTJoin"], by_purpose["gossip"], by_purpose["index tuple"]
    assert [a + b for a, b in zip(gossip, tuples, strict=True)] == list(total)
    nodes, queries = result.parameters["nodes"], result.parameters["queries"]
    assert all(spent > count * (nodes - 1) for spent, count in zip(gossip, queries, strict=True))


def test_on_rings_of_random_identifiers_m_opt_spares_much_as_well() -> None:
    """Section 3.3, measured where fingers of different nodes coincide less."""
    whole, spared = (run_gossip(GossipTask(10, fanout, full=False, seed=2)) for fanout in ("m", "m_opt"))
    assert spared.hops == whole.hops
    assert spared.hit_ratio == 1
    assert 0.4 < spared.redundant_per_node / whole.redundant_per_node < 0.7
