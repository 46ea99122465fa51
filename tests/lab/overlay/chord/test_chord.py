"""Chord: who is responsible, how many hops, and what happens when nodes come and go."""

from __future__ import annotations

import hashlib
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.chord.living_ring import LivingRing
from watersmeet.lab.overlay.chord.ring import between, estimate_size, identifier
from watersmeet.lab.overlay.chord.stable_ring import StableRing

BITS = 6
rings = st.sets(st.integers(0, 2**BITS - 1), min_size=1, max_size=20).map(sorted)


def naive_owner(ids: list[int], key: int) -> int:
    """The first node at or after a key, round the circle."""
    return next((number for number, node in enumerate(ids) if node >= key), 0)


def test_identifiers_are_the_first_bits_of_sha1() -> None:
    digest = int(hashlib.sha1(b"R+A+3").hexdigest(), 16)
    assert identifier("R+A+3", 48) == digest >> 112
    assert identifier("R+A+3", 4) == digest >> 156


def test_the_ring_of_the_module_docstring() -> None:
    ring = StableRing([1, 4, 9, 13], bits=4)
    assert [ring.id_of(node) for node in ring.path(3, 7)] == [1, 4, 9]


@given(ids=rings, key=st.integers(0, 2**BITS - 1), data=st.data())
def test_a_lookup_ends_at_the_owner_and_counts_every_hop(ids: list[int], key: int, data: Any) -> None:
    ring = StableRing(ids, BITS)
    source = data.draw(st.integers(0, len(ids) - 1))
    owner = naive_owner(ids, key)
    path = ring.path(source, key)
    sent = np.zeros(len(ids), np.int64)
    assert ring.owner(key) == owner
    assert (path[-1] if path else source) == owner
    assert ring.tour(source, [key], sent) == [(owner, len(path))]
    assert ring.hops(source, [key, ids[owner]]) == [len(path)] * 2
    assert sent.sum() == len(path)
    assert all(sent[node] for node in [source, *path][:-1])
    assert len(path) <= BITS + 1


@given(ids=rings, node=st.integers(0, 19))
def test_fingers_are_the_first_nodes_after_powers_of_two(ids: list[int], node: int) -> None:
    ring = StableRing(ids, BITS)
    node %= len(ids)
    expected = [naive_owner(ids, (ids[node] + 2**k) % 2**BITS) for k in range(BITS)]
    assert [ring.finger(node, k) for k in range(BITS)] == expected
    assert ring.fingers(node) == [other for other in dict.fromkeys(expected) if other != node]


@given(ids=rings, keys=st.lists(st.integers(0, 2**BITS - 1), min_size=2, max_size=6), data=st.data())
def test_a_tour_visits_every_owner_in_turn(ids: list[int], keys: list[int], data: Any) -> None:
    ring = StableRing(ids, BITS)
    here = source = data.draw(st.integers(0, len(ids) - 1))
    total, expected = 0, []
    for key in keys:
        path = ring.path(here, key)
        total += len(path)
        here = path[-1] if path else here
        expected.append((here, total))
    assert ring.tour(source, keys, np.zeros(len(ids), np.int64)) == expected


@pytest.mark.parametrize("size", [64, 1024, 16_384])
def test_mean_hops_are_about_half_of_log_n(size: int) -> None:
    ring, rng = StableRing.of(size), random.Random(1)
    lookups = 3000
    hops = [len(ring.path(rng.randrange(size), rng.getrandbits(ring.bits))) for _ in range(lookups)]
    assert math.log2(size) / 2 - 0.5 < sum(hops) / lookups < math.log2(size) / 2 + 1.5
    assert max(hops) <= 2 * math.log2(size)


def test_a_hundred_thousand_nodes_are_no_trouble() -> None:
    ring = StableRing.of(100_000)
    path = ring.path(5, identifier("somewhere"))
    assert path[-1] == ring.owner(identifier("somewhere"))
    assert 0.5 < estimate_size(ring, 7) / 100_000 < 2


def test_grouped_routing_is_cheaper_than_separate_lookups() -> None:
    ring, rng = StableRing.of(1000), random.Random(3)
    own = ring.id_of(0)
    keys = sorted((rng.getrandbits(48) for _ in range(100)), key=lambda key: (key - own) % 2**48)
    grouped = ring.tour(0, keys, np.zeros(1000, np.int64))[-1][1]
    assert grouped < sum(len(ring.path(0, key)) for key in keys) / 2


@pytest.mark.parametrize(
    ("ids", "bits"), [([], 8), ([1, 1], 8), ([300], 8), ([1], 63)], ids=["empty", "twice", "outside", "bits"]
)
def test_impossible_rings_are_refused(ids: list[int], bits: int) -> None:
    with pytest.raises(ConfigurationError):
        StableRing(ids, bits)


def test_between_goes_round_the_circle() -> None:
    assert between(5, 3, 5)
    assert not between(3, 3, 5)
    assert between(1, 14, 2)
    assert between(9, 4, 4)


@given(seed=st.integers(0, 10_000), size=st.integers(2, 40), changes=st.integers(1, 15))
@settings(deadline=None, max_examples=40)
def test_announced_joins_and_leaves_keep_every_lookup_right(seed: int, size: int, changes: int) -> None:
    rng, ring = random.Random(seed), LivingRing.of(size)
    for change in range(changes):
        if rng.random() < 0.5 and len(ring.nodes) > 1:
            ring.leave(rng.choice(ring.nodes))
        else:
            ring.join(identifier(f"new {seed} {change}"), rng.choice(ring.nodes))
        for _ in range(5):
            source, key = rng.choice(ring.nodes), rng.getrandbits(ring.bits)
            path = ring.path(source, key)
            assert (path[-1] if path else source) == ring.owner(key)


@given(seed=st.integers(0, 10_000), size=st.integers(12, 40), failures=st.integers(1, 6))
@settings(deadline=None, max_examples=25)
def test_the_ring_stabilises_after_joins_and_silent_failures(seed: int, size: int, failures: int) -> None:
    rng, ring = random.Random(seed), LivingRing.of(size)
    for failure in range(failures):
        ring.fail(rng.choice(ring.nodes))
        ring.join(identifier(f"new {seed} {failure}"), rng.choice(ring.nodes))
    rounds = 0
    while not ring.is_stable:
        ring.stabilise()
        rounds += 1
        assert rounds <= 2 * failures + 4
    for _ in range(20):
        source, key = rng.choice(ring.nodes), rng.getrandbits(ring.bits)
        path = ring.path(source, key)
        assert (path[-1] if path else source) == ring.owner(key)


def test_a_failure_is_noticed_by_timeouts() -> None:
    ring = LivingRing.of(64)
    for node in ring.nodes[1:20:3]:
        ring.fail(node)
    for key in range(0, 2**48, 2**42):
        ring.path(0, key)
    assert ring.timeouts > 0
    ring.stabilise()
    ring.stabilise()
    before = ring.timeouts
    for key in range(0, 2**48, 2**42):
        ring.path(0, key)
    assert ring.timeouts == before
