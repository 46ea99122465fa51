"""PMJoin's plans on a simulated WAN (DASFAA 2006, sections 3.2 and 3.3): answers are the oracle's."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.compared import Case, tuples_of
from tests.plan.papers import example
from tests.strategies import ALL_WINDOWS, KEY_DOMAINS, cases
from watersmeet.errors import ConfigurationError
from watersmeet.lab.figures.pmjoin.example import (
    PAPER_COSTS,
    SCHEMES,
    example_1,
    plan_scheme,
    simulate_scheme,
)
from watersmeet.lab.wan.arrivals import Joined, arrivals_of
from watersmeet.lab.wan.draws import draw_arrivals
from watersmeet.lab.wan.network import Link
from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork, longest_delay_us
from watersmeet.lab.wan.pmjoin.operator import SWEEP_EVERY, MJoinOperator
from watersmeet.oracle.oracle import Answer, Tuple, answers
from watersmeet.plan.sites.plan_tree import PlanNode, PMJoin
from watersmeet.plan.sites.pmjoin.pmjoin import OPTIMIZERS, partitioned_plan, plan_distributed
from watersmeet.plan.sites.stream_partition import PARTITIONINGS
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Query, Stream, rows
from watersmeet.query.values import canonical

SITES = "pqr"
SECOND = 1_000_000


def seen(found: Sequence[Answer]) -> Counter[Any]:
    """Answers as a bag."""
    return Counter(
        (one.t, one.end, tuple((tuple_.ts, canonical(tuple_.values)) for tuple_ in one.combination))
        for one in found
    )


def drawn_statistics(query: Query, rng: random.Random) -> Statistics:
    """Any sites, rates and frequent values: a plan may be bad, but never wrong."""

    def attributes(stream: Stream, rate: float) -> dict[str, AttributeStatistics]:
        known = {}
        for column in stream.columns:
            domain = [v for v in KEY_DOMAINS.get(column.type, ()) if isinstance(v, str | int | float)]
            domain = [v for v in domain if v == v]  # NaN cannot be listed
            values = list(dict.fromkeys(rng.sample(domain, rng.randint(0, len(domain)))))
            hot = tuple((value, rate * rng.random() / len(values)) for value in values)
            known[column.name] = AttributeStatistics(rng.choice([5.0, 50.0]), hot)
        return known

    streams = {}
    for stream in query.streams:
        rate = rng.choice([1.0, 10.0, 100.0])
        streams[stream.name] = StreamStatistics(rate, 1.0, rng.choice(SITES), attributes(stream, rate))
    return Statistics(streams)


def drawn_plan(query: Query, rng: random.Random) -> PlanNode:
    model = rate_model(query, drawn_statistics(query, rng))
    optimizer: Any = rng.choice(list(OPTIMIZERS))
    return partitioned_plan(model, rng.choice([1, 2, 3, 10]), rng.choice(PARTITIONINGS), optimizer=optimizer)


def test_every_plan_gives_the_oracles_answers(examples: Callable[[int], settings]) -> None:
    """Any join graph, windows of every kind, any sites, any plan, delays within the bound."""
    counts: Counter[bool] = Counter()  # cases, by whether there were answers

    @examples(30)
    @given(
        cases(2, 4, kinds=("plain",), windows=ALL_WINDOWS, payloads=()),
        st.sampled_from([Link(), Link(latency_us=4, jitter_us=9), Link(3, bytes_per_s=200_000.0)]),
        st.integers(0, 10**6),
    )
    def check(case: Case, link: Link, seed: int) -> None:
        query, batches = case
        plan = drawn_plan(query, random.Random(seed))
        streams = tuples_of(query, batches)
        arrivals = arrivals_of(query, streams)
        start = min((arrival.at_us for arrival in arrivals), default=0)
        network = PmjoinNetwork(query, plan, link, seed=seed, start_us=start)
        run = network.run(arrivals)
        expected = answers(query, streams)
        assert seen(network.answers(run.answers)) == seen(expected)
        assert run.late == 0
        counts[bool(expected)] += 1

    check()
    assert counts[True] >= 0.3 * counts.total()


def drawn_streams(query: Query, statistics: Statistics, seconds: float) -> dict[str, list[Tuple]]:
    """Tuples of Example 1, and some more of each value, so that rare ones meet as well."""
    streams: dict[str, list[Tuple]] = {stream.name: [] for stream in query.streams}
    rng = np.random.default_rng(5)
    for arrival in draw_arrivals(query, rate_model(query, statistics), seconds, rng):
        alias = query.inputs[arrival.input].alias
        streams[alias].append(Tuple(arrival.at_us, {"dest": arrival.tuple_.keys[0]}))
    for name, tuples in streams.items():
        tuples += [Tuple(n * SECOND // 3, {"dest": "abc"[n % 3]}) for n in range(int(3 * seconds))]
        streams[name] = sorted(tuples, key=lambda tuple_: tuple_.ts)
    return streams


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_schemes_of_example_1_give_the_same_answers(scheme: str) -> None:
    query, statistics = example_1()
    streams = drawn_streams(query, statistics, 6.0)
    expected = answers(query, streams)
    assert len(expected) > 100
    plan = plan_scheme(scheme).root
    assert isinstance(plan, PMJoin) == (scheme == "pmjoin")
    network = PmjoinNetwork(query, plan, Link(20_000, jitter_us=30_000), seed=1)
    run = network.run(arrivals_of(query, streams))
    assert seen(network.answers(run.answers)) == seen(expected)
    assert 20_000 <= run.largest_delay_us <= 50_000


@pytest.mark.parametrize(("scheme", "seconds"), list(zip(SCHEMES, (60, 200, 50_000), strict=True)))
def test_example_1_is_simulated_at_its_costs(scheme: str, seconds: float) -> None:
    """Section 1: 100.1, about 54.03 and about 0.07 bytes/s."""
    cost = simulate_scheme(scheme, seconds, seed=3)
    assert cost.modelled == pytest.approx(PAPER_COSTS[scheme], rel=0.01)
    assert cost.simulated == pytest.approx(cost.modelled, rel=0.06)


def test_example_1_is_the_query_of_the_examples() -> None:
    query, statistics = example("pmjoin-example-1")
    ours, known = example_1()
    assert ours.graph == query.graph
    model, other = rate_model(query, statistics), rate_model(ours, known)
    assert [model.bytes_per_s(mask) for mask in range(1, 8)] == pytest.approx(
        [other.bytes_per_s(mask) for mask in range(1, 8)]
    )


def test_bytes_are_counted_by_link() -> None:
    """The distributed plan: s3 goes from n3 to n2, and what it meets there goes on to n1, two bytes each."""
    query, statistics = example_1()
    plan = plan_distributed(query, statistics).root
    at = {"s3": [0, SECOND + 1], "s2": [10, SECOND + 2], "s1": [20]}
    streams = {name: [Tuple(ts, {"dest": "a"}) for ts in times] for name, times in at.items()}
    network = PmjoinNetwork(query, plan)
    run = network.run(arrivals_of(query, streams), until_us=2 * SECOND)
    assert {way: (seen.bytes, seen.messages) for way, seen in run.traffic.items()} == {
        ("n3", "n2"): (2, 2),
        ("n2", "n1"): (4, 2),
    }
    assert run.bytes_per_s == 3.0
    assert run.lookups == 0
    assert len(run.answers) == 1


def test_counting_starts_when_asked_to() -> None:
    query, statistics = example_1()
    plan = plan_distributed(query, statistics).root
    streams = {"s3": [Tuple(n * SECOND // 4, {"dest": "b"}) for n in range(12)]}
    run = PmjoinNetwork(query, plan).run(
        arrivals_of(query, streams), measure_from_us=SECOND, until_us=3 * SECOND
    )
    assert run.bytes_per_s == 4.0
    assert run.traffic["n3", "n2"].messages == 8


def test_a_delay_above_the_bound_is_refused_and_counted() -> None:
    query, statistics = example_1()
    plan = plan_distributed(query, statistics).root
    streams = {name: [Tuple(n, {"dest": "a"})] for n, name in enumerate(("s3", "s2", "s1"))}
    network = PmjoinNetwork(query, plan, Link(2 * SECOND), delay_bound_us=SECOND)
    run = network.run(arrivals_of(query, streams))
    assert (run.late, run.answers) == (1, ())


def test_what_cannot_be_met_any_more_is_forgotten() -> None:
    operator = MJoinOperator("p", [frozenset([0]), frozenset([0])], lag_us=10)
    for ts in range(3 * SWEEP_EVERY):
        assert operator.receive(0, Joined(ts, ts + 5, {0: ts}), ts) == []
    assert 0 < operator.stored <= SWEEP_EVERY + 20


def test_queues_have_no_bound_on_their_delay() -> None:
    assert longest_delay_us(Link(5, jitter_us=2)) == 7
    assert longest_delay_us({("a", "b"): Link(5), ("b", "c"): Link(9)}) == 9
    assert longest_delay_us({("a", "b"): Link(5, bytes_per_s=10.0)}) is None


def test_a_partitioned_plan_without_its_router_is_refused() -> None:
    query, _ = example_1()
    plan = plan_scheme("pmjoin").root
    assert isinstance(plan, PMJoin)
    bare = PMJoin(
        attribute=plan.attribute,
        inputs=plan.inputs,
        partitions=plan.partitions,
        rate_per_s=plan.rate_per_s,
        tuple_bytes=plan.tuple_bytes,
    )
    with pytest.raises(ConfigurationError, match="does not say how"):
        PmjoinNetwork(query, bare)


def test_a_tuple_of_a_rows_window_waits_until_its_lifetime_is_known() -> None:
    query, _ = example_1()
    first = replace(query.inputs[0], window=rows(1))
    query = replace(query, inputs=(first, *query.inputs[1:]))
    times = {"s1": [3, 5], "s2": [9]}
    known = arrivals_of(query, {name: [Tuple(ts, {"dest": "a"}) for ts in at] for name, at in times.items()})
    assert [(one.at_us, one.tuple_.t, one.input) for one in known] == [(5, 3, 0), (9, 5, 0), (9, 9, 1)]
