"""Completeness under bounded memory (DHTJoin, section 5)."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.joins import join_query
from watersmeet.errors import ConfigurationError
from watersmeet.plan.sizing.completeness import (
    StreamDemand,
    completeness,
    exact_partitions,
    partitions_needed,
    size,
    split_memory,
    stream_demands,
    typed_demands,
)
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import UNBOUNDED, range_us

demands = st.lists(
    st.builds(
        StreamDemand,
        name=st.just("s"),
        window_tuples=st.floats(1, 1e6),
        memory_tuples=st.floats(0.5, 1e4),
        tuple_bytes=st.floats(1, 2000),
    ),
    min_size=1,
    max_size=6,
)


def printed_completeness(streams: Sequence[StreamDemand], n: float, selectivity: float = 0.01) -> float:
    """Equation (10) developed as printed: all results, less the losses of (3), plus what (9) counts twice."""
    windows = [stream.window_tuples / n for stream in streams]
    memory = [stream.memory_tuples or 0 for stream in streams]
    lost = [max(0.0, w - m) for w, m in zip(windows, memory, strict=True)]  # (2)
    kept = [w - loss for w, loss in zip(windows, lost, strict=True)]
    scale = selectivity ** (len(streams) - 1)
    total = scale * math.prod(windows)  # (1)
    losses = sum(
        scale * lost[i] * math.prod(windows[j] for j in range(len(streams)) if j != i)
        for i in range(len(streams))
    )
    repeated = sum(
        scale
        * (k - 1)
        * math.prod(lost[i] for i in chosen)
        * math.prod(kept[j] for j in range(len(streams)) if j not in chosen)
        for k in range(2, len(streams) + 1)
        for chosen in itertools.combinations(range(len(streams)), k)
    )
    return (total - (losses - repeated)) / total


@given(demands, st.integers(1, 5000))
def test_the_product_form_equals_the_sum_of_losses_it_was_developed_from(
    streams: list[StreamDemand], partitions: int
) -> None:
    """(10) with (9) gives (11), whichever windows fit."""
    assert completeness(streams, partitions) == pytest.approx(
        printed_completeness(streams, partitions), rel=1e-6, abs=1e-9
    )


def test_two_streams_by_hand() -> None:
    """(7) and (8): 3000 tuples a window, room for 100, ten partitions keep a third of each."""
    streams = [StreamDemand("r", 3000, 100), StreamDemand("s", 3000, 100)]
    assert completeness(streams, 10) == pytest.approx(10**2 * 100 * 100 / (3000 * 3000))
    assert exact_partitions(streams, 0.81) == pytest.approx(math.sqrt(0.81 * 3000 * 3000 / (100 * 100)))
    assert partitions_needed(streams, 0.81) == 27
    assert partitions_needed(streams, 1.0) == 30


def test_the_papers_setting() -> None:
    """Section 6's streams: 30 tuples/s under 50 s windows; (12) with three streams and room for 20 tuples."""
    streams = [StreamDemand(name, 30 * 50, 20) for name in "xyz"]
    assert exact_partitions(streams, 0.5) == pytest.approx((0.5 * 1500**3 / 20**3) ** (1 / 3))
    assert partitions_needed(streams, 0.5) == 60


def test_a_stream_that_fits_does_not_make_up_for_one_that_does_not() -> None:
    roomy, tight = StreamDemand("r", 100, 1000), StreamDemand("s", 1000, 100)
    assert completeness([roomy, tight], 5) == pytest.approx(0.5)
    assert exact_partitions([roomy, tight], 0.5) == pytest.approx(5)


@given(demands, st.floats(0.01, 1))
def test_the_partitions_needed_are_the_fewest(streams: list[StreamDemand], target: float) -> None:
    count = partitions_needed(streams, target)
    assert completeness(streams, count) >= target * (1 - 1e-8)
    assert count == 1 or completeness(streams, count - 1) < target
    if exact_partitions(streams, target) >= 1:
        assert completeness(streams, exact_partitions(streams, target)) == pytest.approx(target, rel=1e-6)


def test_a_simulated_join_loses_what_the_formula_says() -> None:
    """Three windows hashed over partitions that keep a random part of what they are sent."""
    rng = random.Random(11)
    keys, partitions, window, rooms = 4000, 8, 16_000, (700, 1200, 5000)
    found, total = 0, 0
    held: list[Counter[int]] = []
    full: list[Counter[int]] = []
    for room in rooms:
        tuples = [rng.randrange(keys) for _ in range(window)]
        full.append(Counter(tuples))
        kept: Counter[int] = Counter()
        for partition in range(partitions):
            here = [key for key in tuples if key % partitions == partition]
            kept.update(rng.sample(here, min(room, len(here))))
        held.append(kept)
    for key in range(keys):
        total += math.prod(counts[key] for counts in full)
        found += math.prod(counts[key] for counts in held)
    streams = [StreamDemand(str(room), window, room) for room in rooms]
    assert found / total == pytest.approx(completeness(streams, partitions), rel=0.05)


@given(demands, st.integers(1, 50), st.floats(10, 1e6), st.randoms(use_true_random=False))
def test_no_other_split_of_the_memory_is_more_complete(
    streams: list[StreamDemand], partitions: int, memory_bytes: float, rng: random.Random
) -> None:
    split = split_memory(streams, partitions, memory_bytes)
    used = sum((stream.memory_tuples or 0) * stream.tuple_bytes for stream in split)
    assert used <= memory_bytes * (1 + 1e-9)
    weights = [rng.random() + 1e-6 for _ in streams]
    other = [
        StreamDemand(s.name, s.window_tuples, memory_bytes * w / sum(weights) / s.tuple_bytes)
        for s, w in zip(streams, weights, strict=True)
    ]
    assert completeness(other, partitions) <= completeness(split, partitions) * (1 + 1e-9)


@given(demands, st.floats(0.05, 1), st.floats(10, 1e6))
def test_sizing_with_shared_memory_finds_the_fewest_partitions(
    streams: list[StreamDemand], target: float, memory_bytes: float
) -> None:
    needed = size(streams, target, memory_bytes=memory_bytes).needed
    assert completeness(split_memory(streams, needed, memory_bytes), needed) >= target * (1 - 1e-8)
    if needed > 1:
        fewer = split_memory(streams, needed - 1, memory_bytes)
        assert completeness(fewer, needed - 1) < target


def test_the_report_reads_well() -> None:
    report = size([StreamDemand("r", 3000, 100), StreamDemand("s", 1500, 100)], 0.5, partitions=10)
    assert report.needed == 15
    assert report.completeness == pytest.approx(10 / 30 * 10 / 15)
    assert report.pretty() == (
        "15 partitions for a completeness of 0.5\n"
        "10 partitions give 0.2222\n"
        "\n"
        "stream        window tuples  kept a partition    kept\n"
        "r                      3000               100   50.0%\n"
        "s                      1500               100  100.0%\n"
        "\n"
        "partitions completeness\n"
        "         2       0.0089\n"
        "         4       0.0356 #\n"
        "         8       0.1422 ######\n"
        "        10       0.2222 #########\n"
        "        12       0.3200 #############\n"
        "        15       0.5000 ####################\n"
        "        19       0.6333 #########################\n"
        "        23       0.7667 ###############################\n"
        "        30       1.0000 ########################################"
    )


def test_a_query_is_sized_from_its_statistics() -> None:
    """The query of section 5: 5 minute windows, here at 30 tuples/s."""
    minutes = range_us(300_000_000)
    query = join_query(["s1", "s2"], [("s1", "s2")], {"s1": minutes, "s2": minutes})
    known = Statistics({name: StreamStatistics(rate_per_s=30, tuple_bytes=50) for name in ("s1", "s2")})
    demands = stream_demands(query, known, {"s1": 100, "s2": 200})
    assert [(d.window_tuples, d.memory_tuples, d.tuple_bytes) for d in demands] == [
        (9000, 100, 50),
        (9000, 200, 50),
    ]
    assert size(demands, 0.5).needed == 45
    shared = size(stream_demands(query, known), 1.0, memory_bytes=10_000)
    assert shared.needed == 90
    assert shared.to_json()["partitions_needed"] == 90
    with pytest.raises(ConfigurationError, match="memory is given for s9"):
        stream_demands(query, known, {"s9": 1})
    with pytest.raises(ConfigurationError, match="s1: an unbounded window"):
        stream_demands(join_query(["s1", "s2"], [("s1", "s2")], {"s1": UNBOUNDED}), known)


@pytest.mark.parametrize("target", [0, -1, 1.5, math.nan])
def test_targets_outside_0_and_1_are_refused(target: float) -> None:
    with pytest.raises(ConfigurationError, match="above 0 and at most 1"):
        size([StreamDemand("r", 10, 1)], target)


def test_streams_can_be_given_as_plain_numbers() -> None:
    assert size(typed_demands([300, 300], [10], [100]), 0.81, partitions=10) == size(
        [StreamDemand("s1", 3000, 100), StreamDemand("s2", 3000, 100)], 0.81, partitions=10
    )
    assert [demand.window_tuples for demand in typed_demands([1, 2], [10, 20])] == [10, 40]
    assert [demand.tuple_bytes for demand in typed_demands([1, 2], [10], tuple_bytes=[80])] == [80, 80]
    with pytest.raises(ConfigurationError, match="3 rates but 2 windows: give one for all, or one for each"):
        typed_demands([1, 2, 3], [10, 20])
    with pytest.raises(ConfigurationError, match="2 rates but 3 memories"):
        typed_demands([1, 2], [10], [1, 2, 3])


def test_what_cannot_be_sized_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="bounded window"):
        StreamDemand("r", math.inf, 1)
    with pytest.raises(ConfigurationError, match="keeps no answer"):
        StreamDemand("r", 10, 0)
    with pytest.raises(ConfigurationError, match="how many of its tuples fit"):
        size([StreamDemand("r", 10)], 0.5)
    with pytest.raises(ConfigurationError, match="at least one stream"):
        size([], 0.5)
    with pytest.raises(ConfigurationError, match="needs memory"):
        size([StreamDemand("r", 10)], 0.5, memory_bytes=0)
    with pytest.raises(ConfigurationError, match="at least one partition"):
        size([StreamDemand("r", 10, 1)], 0.5, partitions=0)
