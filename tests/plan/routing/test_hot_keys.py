"""Which values the cost model spreads, and on which input."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.plan.routing.hot_keys import ClassLoad, choose_hot


def load_of(
    values: dict[str, tuple[float, ...]],
    rates: tuple[float, ...] = (100.0, 100.0),
    cells: int = 4,
    window: float = 0.1,
) -> ClassLoad[str]:
    homes = {value: number % cells for number, value in enumerate(values)}
    return ClassLoad(cells, (window,) * len(rates), rates, values, homes)


def zipf(skew: float, inputs: int = 3, values: int = 200, cells: int = 4) -> ClassLoad[int]:
    weights = [1 / n**skew for n in range(1, values + 1)]
    shares = {n: weight / sum(weights) for n, weight in enumerate(weights)}
    rng = random.Random(7)
    homes = {n: rng.randrange(cells) for n in shares}
    rates = {n: (1000 * share,) * inputs for n, share in shares.items()}
    return ClassLoad(cells, (0.02,) * inputs, (1000.0,) * inputs, rates, homes)


def test_the_example_in_the_module_holds() -> None:
    load = load_of({"v": (50.0, 1.0)})
    assert load.combinations("v") == pytest.approx(10)
    assert load.loads({}).tolist() == pytest.approx([98.25, 37.25, 37.25, 37.25])
    assert load.loads({"v": 0}).tolist() == pytest.approx([53.25] * 4)
    assert choose_hot(load, {}) == {"v": 0}


def test_the_most_frequent_input_is_spread() -> None:
    assert choose_hot(load_of({"v": (1.0, 50.0)}), {}) == {"v": 1}


def test_an_even_stream_has_no_hot_value() -> None:
    even = {f"v{n}": (1.0, 1.0) for n in range(100)}
    assert choose_hot(load_of(even), {}) == {}


def test_two_values_that_are_equally_hot_are_both_spread() -> None:
    assert choose_hot(load_of({"v": (40.0, 1.0), "w": (1.0, 40.0)}), {}) == {"v": 0, "w": 1}


def test_a_value_that_all_inputs_share_alike_is_not_worth_its_copies_where_it_makes_no_combinations() -> None:
    load = load_of({"v": (30.0,) * 6}, (100.0,) * 6, window=1e-9)
    assert choose_hot(load, {}) == {}


def test_a_hot_value_stays_at_the_border_and_cools_when_it_is_gone() -> None:
    hot = {"v": 0}
    assert choose_hot(load_of({"v": (8.0, 0.1)}), {}) == {}
    assert choose_hot(load_of({"v": (8.0, 0.1)}), hot) == hot
    assert choose_hot(load_of({"v": (0.1, 0.1)}), hot) == {}
    assert choose_hot(load_of({}), hot) == {}


def test_a_value_of_which_another_input_has_become_the_frequent_one_cools_first() -> None:
    swapped = load_of({"v": (5.0, 50.0)})
    assert choose_hot(swapped, {"v": 0}) == {}
    assert choose_hot(swapped, {}, cooling={"v": 0}) == {}
    assert choose_hot(swapped, {}, cooling={"v": 1}) == {"v": 1}
    assert choose_hot(swapped, {}) == {"v": 1}


@pytest.mark.parametrize("skew", [1.0, 1.2, 1.5, 2.0])
@pytest.mark.parametrize("cells", [2, 4, 16])
def test_the_busiest_cell_of_a_zipf_stream_comes_near_the_mean(skew: float, cells: int) -> None:
    load = zipf(skew, cells=cells)
    before, after = load.loads({}), load.loads(choose_hot(load, {}))
    assert after.max() < before.max()
    assert after.max() <= 1.5 * after.mean()


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50), st.integers(0, 3)), max_size=12),
    st.integers(0, 2**12 - 1),
)
def test_what_is_chosen_is_kept_when_nothing_changes(
    drawn: list[tuple[float, float, int]], already: int
) -> None:
    values = {str(n): (a, b) for n, (a, b, _) in enumerate(drawn)}
    homes = {str(n): home for n, (_, _, home) in enumerate(drawn)}
    rates = (700.0, 700.0)
    load = ClassLoad(4, (0.1, 0.1), rates, values, homes)
    hot = {str(n): load.most_frequent(str(n)) for n in range(len(drawn)) if already >> n & 1}
    for _ in range(len(drawn) + 2):
        hot, before = choose_hot(load, hot), hot
    assert hot == before


def test_no_more_values_are_hot_or_cooling_than_a_table_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.plan.routing.hot_keys.MOST_VALUES", 3)
    load = zipf(1.5, cells=16)
    assert len(choose_hot(load, {})) <= 3
    assert choose_hot(load, {}, cooling=dict.fromkeys((100, 101, 102), 0)) == {}
