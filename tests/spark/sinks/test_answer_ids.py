from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.spark.sinks.answer_ids import Numbers, name_answers

HASHES = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), max_size=30)


def in_batches(hashes: list[int], size: int) -> list[int]:
    numbers = Numbers()
    taken = [numbers.take(np.array(hashes[at : at + size], np.int64)) for at in range(0, len(hashes), size)]
    return [int(number) for part in taken for number in part]


def test_equals_are_numbered_from_zero_on_however_rows_come_in_batches(
    examples: Callable[[int], settings],
) -> None:
    @examples(50)
    @given(hashes=HASHES, size=st.integers(1, 40))
    def check(hashes: list[int], size: int) -> None:
        seen: defaultdict[int, int] = defaultdict(int)
        expected = []
        for value in hashes:
            expected.append(seen[value])
            seen[value] += 1
        assert in_batches(hashes, size) == expected

    check()


def test_the_same_bag_gets_the_same_ids_in_any_order(examples: Callable[[int], settings]) -> None:
    @examples(25)
    @given(hashes=HASHES, size=st.integers(1, 40), random=st.randoms())
    def check(hashes: list[int], size: int, random: object) -> None:
        shuffled = sorted(hashes, key=lambda _: random.random())  # type: ignore[attr-defined]
        bags = [Counter(zip(order, in_batches(order, size), strict=True)) for order in (hashes, shuffled)]
        assert bags[0] == bags[1]
        assert set(bags[0].values()) <= {1}

    check()


def test_an_id_is_plain_text_that_names_its_origin() -> None:
    ids = name_answers("9f3c01ab-7-1", np.array([5, -1], np.int64), np.array([0, 2], np.int64))
    assert ids.to_pylist() == ["9f3c01ab-7-1-5-0", "9f3c01ab-7-1-18446744073709551615-2"]
