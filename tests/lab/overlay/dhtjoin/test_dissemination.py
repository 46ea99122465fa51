"""The tree of DHTJoin (extended version, 3.1 and 4.1) and the gossip of Euro-Par 2008 (3.2 and 3.3)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.chord.living_ring import LivingRing
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.dissemination import (
    FANOUTS,
    Fanout,
    Received,
    Share,
    complete_by_gossip,
    gossip_targets,
    local_list,
    spread_by_gossip,
    spread_by_tree,
    tree_shares,
)

RINGS = st.sets(st.integers(0, 2**12 - 1), min_size=1, max_size=60).map(
    lambda ids: StableRing(sorted(ids), 12)
)


class TestTree:
    """Extended version, section 3.1."""

    def test_the_papers_example(self) -> None:
        """A full ring of 8 nodes, the query at node 0."""
        fingers = {
            node: [((node + reach) % 8, (node + reach) % 8) for reach in (1, 2, 4)] for node in range(8)
        }
        assert tree_shares(0, 0, fingers[0], 3) == [Share(1, 2), Share(2, 4), Share(4, 0)]
        assert tree_shares(1, 2, fingers[1], 3) == []
        assert tree_shares(2, 4, fingers[2], 3) == [Share(3, 4)]
        assert tree_shares(4, 0, fingers[4], 3) == [Share(5, 6), Share(6, 0)]
        assert tree_shares(5, 6, fingers[5], 3) == []
        assert tree_shares(6, 0, fingers[6], 3) == [Share(7, 0)]

    @given(ring=RINGS, start=st.integers(0, 10**6))
    def test_every_node_gets_the_query_once(self, ring: StableRing, start: int) -> None:
        root = ring.nodes[start % len(ring.nodes)]
        spread = spread_by_tree(ring, root)
        assert spread.messages == len(ring.nodes) - 1
        assert set(spread.hop_of) == set(ring.nodes)

    @pytest.mark.parametrize("bits", [1, 3, 7, 10])
    def test_the_depth_of_a_full_ring_is_log2_n(self, bits: int) -> None:
        spread = spread_by_tree(StableRing(range(1 << bits), bits), root=(1 << bits) // 3)
        assert spread.hops == bits

    @given(ring=RINGS, start=st.integers(0, 10**6))
    def test_no_node_is_deeper_than_a_lookup_of_it_is_long(self, ring: StableRing, start: int) -> None:
        root = ring.nodes[start % len(ring.nodes)]
        for node, hops in spread_by_tree(ring, root).hop_of.items():
            assert hops <= len(ring.path(root, ring.id_of(node)))

    def test_a_failed_node_cuts_off_its_arc(self) -> None:
        ring = LivingRing(StableRing(range(16), 4))
        ring.fail(8)
        spread = spread_by_tree(ring, 0)
        assert set(ring.nodes) - set(spread.hop_of) == set(range(9, 16))


class TestGossip:
    """Euro-Par 2008, sections 2.3, 3.2 and 3.3."""

    @given(ring=RINGS, fanout=st.sampled_from(FANOUTS), start=st.integers(0, 10**6))
    def test_every_node_is_reached_whatever_the_fanout(
        self, ring: StableRing, fanout: Fanout, start: int
    ) -> None:
        root = ring.nodes[start % len(ring.nodes)]
        spread = spread_by_gossip(ring, root, fanout, random.Random(start))
        assert spread.hit_ratio(ring.nodes) == 1

    @pytest.mark.parametrize("size", [8, 9, 100, 101])
    def test_fanout_2_takes_half_the_ring_and_two_redundant_messages(self, size: int) -> None:
        spread = spread_by_gossip(StableRing.of(size), 0, "2", random.Random(0))
        assert spread.hops == size // 2
        assert spread.redundant <= 2

    @pytest.mark.parametrize("bits", [6, 8, 10])
    def test_m_takes_at_most_log2_n_hops_and_about_log2_n_redundant_messages_a_node(self, bits: int) -> None:
        spread = spread_by_gossip(StableRing(range(1 << bits), bits), 5, "m", random.Random(0))
        assert spread.hops <= bits
        assert spread.redundant / (1 << bits) == pytest.approx(bits, rel=0.25)

    @given(ring=RINGS, start=st.integers(0, 10**6))
    def test_m_opt_progresses_exactly_as_m_with_fewer_messages(self, ring: StableRing, start: int) -> None:
        root = ring.nodes[start % len(ring.nodes)]
        whole = spread_by_gossip(ring, root, "m", random.Random(0))
        spared = spread_by_gossip(ring, root, "m_opt", random.Random(0))
        assert spared.hop_of == whole.hop_of
        assert spared.messages <= whole.messages

    @pytest.mark.parametrize("bits", [8, 10])
    def test_m_opt_halves_the_overhead(self, bits: int) -> None:
        ring = StableRing(range(1 << bits), bits)
        whole = spread_by_gossip(ring, 5, "m", random.Random(0))
        spared = spread_by_gossip(ring, 5, "m_opt", random.Random(0))
        assert spared.redundant / whole.redundant == pytest.approx(0.5, abs=0.05)

    def test_a_message_never_goes_back_to_its_sender(self) -> None:
        rng = random.Random(0)
        for fanout in FANOUTS:
            assert 3 not in gossip_targets(fanout, [5, 3, 6, 8], [Received(3)], rng)

    def test_m_opt_leaves_out_nodes_that_any_sender_reached(self) -> None:
        received = [Received(3, (6, 9)), Received(8, (5,))]
        assert gossip_targets("m_opt", [5, 3, 6, 8, 7], received, random.Random(0)) == [7]

    def test_progress_counts_down_to_nobody(self) -> None:
        ring = StableRing(range(8), 3)
        spread = spread_by_gossip(ring, 0, "m", random.Random(0))
        assert spread.not_reached(ring.nodes) == [7, 3, 0]

    def test_an_unknown_fanout_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="no fanout '3'"):
            gossip_targets("3", [1], [], random.Random(0))  # type: ignore[arg-type]


class TestTreeWithGossip:
    """Extended version, section 4.1: gossip reaches what a failure cut off."""

    @given(seed=st.integers(0, 200), share=st.sampled_from([0.05, 0.2, 0.35]))
    def test_gossip_completes_the_coverage(self, seed: int, share: float) -> None:
        rng = random.Random(seed)
        ring = LivingRing(StableRing.of(64, 16, name=f"{seed}"))
        for node in rng.sample(range(1, 64), int(64 * share)):
            ring.fail(node)
        spread = spread_by_tree(ring, 0)
        complete_by_gossip(ring, spread, lambda node: local_list(ring, node), rng)
        assert spread.hit_ratio(ring.nodes) == 1

    def test_the_tree_alone_does_not(self) -> None:
        shares = []
        for seed in range(20):
            rng = random.Random(seed)
            ring = LivingRing(StableRing.of(64, 16, name=f"{seed}"))
            for node in rng.sample(range(1, 64), 13):
                ring.fail(node)
            shares.append(spread_by_tree(ring, 0).hit_ratio(ring.nodes))
        assert max(shares) < 1

    def test_gossip_may_be_cut_short(self) -> None:
        ring = LivingRing(StableRing(range(64), 6))
        ring.fail(32)
        spread = spread_by_tree(ring, 0)
        reached = len(spread.hop_of)
        complete_by_gossip(ring, spread, lambda node: local_list(ring, node), random.Random(1), max_rounds=1)
        assert spread.rounds == 1
        assert reached < len(spread.hop_of) < 63
