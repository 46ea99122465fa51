"""The six cost formulas of the semijoin paper (Appendix B), against a plain transcription of them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import ConfigurationError
from watersmeet.plan.sites.semijoin.cost import (
    ALL_METHODS,
    PAPER_METHODS,
    JoinSide,
    Method,
    OneWayJoin,
    ProcessingCosts,
    cheapest_method,
    expected_distinct,
    join_cost,
)
from watersmeet.plan.statistics.statistics import Link

COSTS = ProcessingCosts(probe_s=2e-7, update_s=3e-6, insert_s=5e-6, hash_s=7e-6, count_bytes=8)

# Section 5.3.1, the caption of Figure 7.
WAN = Link(bytes_per_s=128_000, latency_s=0.025)
FIGURE_7 = JoinSide(rate_per_s=300, window_tuples=900, tuple_bytes=1250, key_bytes=5, distinct=10)


def figure_7(source: JoinSide = FIGURE_7, target: JoinSide = FIGURE_7) -> OneWayJoin:
    return OneWayJoin(source, target, link=WAN, back=WAN, interval_s=0.1)


def transcribed(join: OneWayJoin, method: Method) -> float:
    """Appendix B line by line, in the paper's symbols."""
    r1, r2 = join.source.rate_per_s, join.target.rate_per_s
    w2 = join.target.window_tuples
    big_f1, big_f2 = join.source.tuple_bytes, join.target.tuple_bytes
    p1, p2 = join.source.key_bytes, join.target.key_bytes
    f1, f2 = 1 / join.source.distinct, 1 / join.target.distinct
    f12, f21 = min(1, f1 / f2), min(1, f2 / f1)
    wp1, wp2 = r1 * join.interval_s, r2 * join.interval_s
    m1, m2, k2 = expected_distinct(wp1, 1 / f1), expected_distinct(wp2, 1 / f2), expected_distinct(w2, 1 / f2)
    cp, cu, ci, ch = join.costs.probe_s, join.costs.update_s, join.costs.insert_s, join.costs.hash_s
    c = join.costs.count_bytes

    def s(x: float) -> float:
        return join.link.latency_s + x / join.link.bytes_per_s if x > 0 else 0

    def s_back(x: float) -> float:
        return join.back.latency_s + x / join.back.bytes_per_s if x > 0 else 0

    n1, n2 = r1 / wp1, r2 / wp2
    match method:
        case Method.SP_S:
            return r1 * cu + r1 * cp * w2 + n2 * s_back(wp2 * big_f2) + r2 * cu
        case Method.SP_D:
            return r1 * ci + n1 * s(wp1 * big_f1) + r1 * cp * w2 + r2 * cu
        case Method.SM_S1:
            return (
                r1 * ci + n1 * s(m1 * p1) + n1 * m1 * cp * w2 + n1 * s_back(wp2 * f21 * big_f2)
                + n1 * wp2 * f21 * ci + r2 * ci + r1 * cp * w2 * f21 + n2 * s_back(c)
            )  # fmt: skip
        case Method.SM_S2:
            return (
                r1 * ci + r1 * ch + n1 * s(k2 * (1 - f12) * p2) + n1 * k2 * (1 - f12) * cp * w2
                + n1 * s_back(k2 * (1 - f12) * big_f2) + r2 * cp * k2 + r1 * ch + r2 * ci
                + n2 * m2 * (1 - f21) * ci + n2 * s_back(m2 * (1 - f21) * p2 + wp2 * f21 * big_f2)
                + n2 * m2 * (1 - f21) * cu
            )  # fmt: skip
        case Method.SM_D1:
            return (
                r1 * ci + r1 * cp * k2 + n1 * s(wp1 * f12 * big_f1) + r1 * f12 * cp * w2 + r2 * cp * k2
                + r2 * ci + 2 * n2 * m2 * (1 - f21) * ci + n2 * s_back(m2 * (1 - f21) * p2)
            )  # fmt: skip
        case Method.SM_D2:
            return (
                r1 * ci + n1 * s(m1 * p1) + n1 * m1 * cp * w2 + n1 * s_back(m1 * f12 * p1)
                + n1 * m1 * f12 * cp * wp1 + n1 * s(wp1 * f12 * big_f1) + n1 * wp1 * f12 * cp * w2 + r2 * cu
            )  # fmt: skip


sides = st.builds(
    JoinSide,
    rate_per_s=st.floats(0.1, 1e4),
    window_tuples=st.floats(0, 1e5),
    tuple_bytes=st.floats(1, 5000),
    key_bytes=st.floats(1, 100),
    distinct=st.floats(1, 1e5),
)
links = st.builds(Link, latency_s=st.floats(0, 0.1), bytes_per_s=st.floats(1e4, 1e7))
joins = st.builds(
    OneWayJoin,
    source=sides,
    target=sides,
    link=links,
    back=links,
    interval_s=st.floats(0.01, 10),
    costs=st.just(COSTS),
)


@given(joins, st.sampled_from(PAPER_METHODS))
def test_the_terms_add_up_to_the_printed_formula(join: OneWayJoin, method: Method) -> None:
    cost = join_cost(join, method)
    assert cost.total == pytest.approx(transcribed(join, method), rel=1e-9)
    assert cost.communication + cost.processing == pytest.approx(cost.total)
    assert all(term.seconds_per_s >= 0 for term in cost.terms)


@given(joins)
def test_the_cheapest_method_is_the_cheapest(join: OneWayJoin) -> None:
    best = cheapest_method(join)
    assert best.total == min(join_cost(join, method).total for method in PAPER_METHODS)
    for end in (True, False):
        assert cheapest_method(join, output_at_source=end).method.output_at_source is end


def test_simple_join_at_the_destination_by_hand() -> None:
    """300 tuples/s of 1250 bytes in ten batches a second over 25 ms and 128 kB/s."""
    cost = join_cost(figure_7(), Method.SP_D)
    assert cost.communication == pytest.approx(10 * 0.025 + 375_000 / 128_000)
    assert cost.bytes_per_s(to_source=False) == pytest.approx(375_000)
    assert cost.bytes_per_s(to_source=True) == 0


def test_equal_selectivities_make_semijoins_ship_like_simple_joins() -> None:
    """Section 5.3.1: with f1 = f2, SM-S2 has the communication of SP-S, and SM-D1 that of SP-D."""
    join = figure_7()
    for semijoin, simple in ((Method.SM_S2, Method.SP_S), (Method.SM_D1, Method.SP_D)):
        assert join_cost(join, semijoin).communication == pytest.approx(join_cost(join, simple).communication)


def test_the_target_selectivity_moves_semijoins_and_not_simple_joins() -> None:
    """Figure 7(c): SM-S1 and SM-S2 grow with f2 up to f1 and stay; SM-D1 and SM-D2 fall after."""

    def total(method: Method, factor: float) -> float:
        return join_cost(figure_7(target=replace(FIGURE_7, distinct=1 / factor)), method).total

    for simple in (Method.SP_S, Method.SP_D):
        assert total(simple, 0.02) == total(simple, 0.5)
    assert total(Method.SM_S1, 0.02) < total(Method.SM_S1, 0.05) < total(Method.SM_S1, 0.1)
    assert total(Method.SM_S1, 0.2) == pytest.approx(total(Method.SM_S1, 0.1))
    for semijoin in (Method.SM_D1, Method.SM_D2):
        assert total(semijoin, 0.5) < total(semijoin, 0.2) < total(semijoin, 0.1)


def test_the_source_group_grows_with_the_target_stream_and_the_other_hardly() -> None:
    """Figure 7(a) and (b): tuples of S2 cross the network only in the source group."""
    wide = figure_7(target=replace(FIGURE_7, tuple_bytes=2500))
    for method in Method:
        before, after = join_cost(figure_7(), method).total, join_cost(wide, method).total
        assert (after > before * 1.5) if method.output_at_source else after == before


def test_a_filter_ships_what_matches_and_a_little_more() -> None:
    """SM-B beside SM-D1 where S1 has many more values than S2: false positives, and no scan of V2."""
    join = figure_7(source=replace(FIGURE_7, distinct=2000), target=replace(FIGURE_7, distinct=200))
    exact, bloom = join_cost(join, Method.SM_D1), join_cost(join, Method.SM_B)
    shipped = bloom.bytes_per_s(to_source=False) / exact.bytes_per_s(to_source=False)
    assert 1 < shipped < 1.4
    assert bloom.processing < exact.processing
    assert cheapest_method(join).method in PAPER_METHODS
    assert cheapest_method(join, methods=(Method.SM_B,)) == bloom


def test_a_filter_is_chosen_where_the_values_are_many() -> None:
    """The optimizer's choice of seven: short tuples and a long list of values to scan."""
    short = JoinSide(rate_per_s=2000, window_tuples=200_000, tuple_bytes=20, key_bytes=8, distinct=50_000)
    join = figure_7(source=replace(short, distinct=500_000), target=short)
    assert cheapest_method(join, output_at_source=False, methods=ALL_METHODS).method is Method.SM_B


def test_one_node_ships_for_free() -> None:
    join = replace(figure_7(), link=Link(), back=Link())
    assert all(join_cost(join, method).communication == 0 for method in ALL_METHODS)


def test_expected_distinct_values_match_a_simulation() -> None:
    rng = random.Random(7)
    for draws, values in ((5, 3), (10, 100), (200, 50)):
        trials = 4000
        mean = sum(len({rng.randrange(values) for _ in range(draws)}) for _ in range(trials)) / trials
        assert expected_distinct(draws, values) == pytest.approx(mean, rel=0.02)


@given(st.floats(0, 1e6), st.floats(0.5, 1e6))
def test_distinct_values_are_bounded_by_draws_and_by_values(draws: float, values: float) -> None:
    assert 0 <= expected_distinct(draws, values) <= min(draws, values)


def test_pretty_lists_every_term_with_its_bytes() -> None:
    text = join_cost(figure_7(), Method.SP_S).pretty()
    assert text == (
        "SP-S 3.20729 s/s\n"
        "  update W1        0.0003\n"
        "  probe W2@N1      0.027\n"
        "  ship B2          3.17969  375000 bytes/s <-\n"
        "  update W2@N1     0.0003"
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: replace(FIGURE_7, rate_per_s=-1),
        lambda: replace(FIGURE_7, distinct=0),
        lambda: replace(figure_7(), interval_s=0),
    ],
)
def test_impossible_parameters_are_refused(make: object) -> None:
    with pytest.raises(ConfigurationError):
        make()  # type: ignore[operator]
