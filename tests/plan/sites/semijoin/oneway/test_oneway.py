"""Parts of the one-way joins (Tran and Lee 2010): windows, vectors and Example 4, the filter."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest

from watersmeet.plan.sites.semijoin.filter import false_positive_rate, filter_bits, flip_bytes
from watersmeet.plan.sites.semijoin.oneway.bloom import CountingFilter, FilterMirror, positions
from watersmeet.plan.sites.semijoin.oneway.items import Item, Key, Member
from watersmeet.plan.sites.semijoin.oneway.vectors import MixedWindow, ValueArray, ValueMirror
from watersmeet.plan.sites.semijoin.oneway.window import HeldWindow
from watersmeet.query import NEVER, range_us


def key_of(item: Item) -> Key:
    return item.members[0].keys[0]


def item(number: int, key: Hashable, ts: int, end: int = NEVER) -> Item:
    return Item(ts, end, number, (Member(number, ts, end, (key,)),))


def test_example_4() -> None:
    """Figure 5: three tuples come to W2, two go; the vectors, and V2 and M2 after them."""
    window = HeldWindow(key_of, 10)
    array, mixed = ValueArray(key_of, "counts"), MixedWindow(key_of, 10)
    cy, ax, ay, ew = item(0, "c", 1, 5), item(1, "a", 2, 6), item(2, "a", 3, 40), item(3, "e", 4, 40)
    before = array.update(window.insert([cy, ax, ay, ew]), [])
    assert before is not None
    mixed.apply(before)
    mixed.fill(held.as_known() for held in window.unsent(["c", "a"]))
    array.mark_sent(["c", "a"])
    assert {j: (e.count, e.sent) for j, e in array.entries.items()} == {
        "c": (1, True), "a": (2, True), "e": (1, False),
    }  # fmt: skip

    dx, az, fw = item(4, "d", 20, 60), item(5, "a", 21, 61), item(6, "f", 22, 62)
    inserted = window.insert([dx, az, fw])
    expired = window.settle(0)
    assert [held.item for held in expired] == [cy, ax]
    update = array.update(inserted, expired)
    assert update is not None
    assert update.values == ("d", "f")
    assert update.counts == (0, 2, 1, 1, 1)
    assert update.full == (az,)

    mixed.apply(update)
    assert mixed.filled == {"a": True, "e": False, "d": False, "f": False}
    assert [held.item for held in mixed.tuples.with_key("a")] == [ay, az]
    assert len(mixed.tuples) == 2
    assert list(array.entries) == list(mixed.filled)


@pytest.mark.parametrize("form", ["counts", "changes"])
def test_v2_at_the_source_follows_v2(form: str) -> None:
    """Section 3.2.2, SM-D1: over random updates both have the same values in the same order."""
    rng = random.Random(4)
    window, array, mirror = HeldWindow(key_of, 10), ValueArray(key_of, form), ValueMirror()
    number = 0
    for interval in range(60):
        coming = []
        for _ in range(rng.randrange(5)):
            coming.append(item(number, rng.randrange(7), interval * 10, interval * 10 + rng.randint(5, 60)))
            number += 1
        update = array.update(window.insert(coming), window.settle(interval - 1))
        if update is not None:
            mirror.apply(update)
        assert list(mirror.counts) == list(array.entries)
        if form == "counts":
            assert list(mirror.counts.values()) == [entry.count for entry in array.entries.values()]
    assert number > 100


def test_changes_are_as_large_as_what_changed() -> None:
    """The same update as in Example 4, of 5-byte values: v_C has five counts, the changes one number."""
    sizes = {}
    for form in ("counts", "changes"):
        window, array = HeldWindow(key_of, 10), ValueArray(key_of, form)
        array.update(window.insert([item(0, "c", 1, 5), item(1, "a", 2, 6), item(2, "a", 3, 40)]), [])
        array.update(window.insert([item(3, "e", 4, 40)]), [])
        update = array.update(window.insert([item(4, "d", 20, 60), item(5, "f", 22, 62)]), window.settle(0))
        assert update is not None
        sizes[form] = update.bytes(5.0, 4.0)
    assert sizes == {"counts": 2 * 5 + 5 * 4, "changes": 2 * 5 + 4}
    later = array.update([], [])
    assert later is None


def test_a_window_finds_what_is_alive_at_the_probes_time_and_keeps_it_until_settled() -> None:
    """Constraints 2 and 3, with the paper's numbers: T = 100, probe at 105, tuples of 8 and 110."""
    window, span = HeldWindow(key_of, 10), range_us(100)
    window.insert([item(n, "k", ts, span.end_us(ts)) for n, ts in enumerate((3, 8, 110))])
    assert [held.t for held in window.matches("k", 105, 105)] == [8]
    assert window.count_alive(105, 105) == 1
    assert [held.t for held in window.settle(10)] == [3, 8]
    assert [held.t for held in window.matches("k", 110, 110)] == [110]
    assert window.count_alive(110, 110) == 1
    assert window.matches("k", 110, 109) == []


def test_the_non_redundant_semijoin_returns_each_tuple_once() -> None:
    """Algorithm 7."""
    window = HeldWindow(key_of, 10)
    window.insert([item(0, "a", 0), item(1, "b", 1), item(2, "a", 2)])
    assert [held.item.number for held in window.unsent(["a", "x"])] == [0, 2]
    window.insert([item(3, "a", 3)])
    assert [held.item.number for held in window.unsent(["a", "b"])] == [1, 3]
    assert window.unsent(["a", "b"]) == []


def test_an_end_that_becomes_known_later_counts_from_then() -> None:
    """Section 3.3: under windows of rows a tuple ends when another comes."""
    window = HeldWindow(key_of, 10)
    window.insert([item(0, "a", 0), item(1, "a", 5)])
    assert len(window.matches("a", 9, 9)) == 2
    assert [held.item.number for held in window.learn([(0, 7), (9, 9)])] == [0]
    assert [held.item.number for held in window.matches("a", 9, 9)] == [1]
    assert window.count_alive(9, 9) == 1
    window.learn([(0, 6)])
    assert [held.end for held in window.remove_first(1)] == [6]
    assert len(window) == 1


def test_the_filters_mirror_has_every_value_and_few_others() -> None:
    bits = filter_bits(100)
    counting, mirror = CountingFilter(bits, 3), FilterMirror(bits, 3)
    rng = random.Random(2)
    values = [f"v{rng.randrange(120)}" for _ in range(400)]
    mirror.flip(counting.update(values, []))
    assert all(value in mirror for value in values)
    passing = sum(f"other {n}" in mirror for n in range(5000)) / 5000
    assert passing == pytest.approx(false_positive_rate(len(set(values)), bits), abs=0.02)
    mirror.flip(counting.update(["new"], values))
    assert "new" in mirror
    assert sum(value in mirror for value in values) < 40
    mirror.flip(counting.update([], ["new"]))
    assert counting.update([], []) == ()
    assert not any(value in mirror for value in values)


def test_equal_values_of_different_types_have_the_same_bits() -> None:
    positions.cache_clear()
    one = positions(1, 64, 3)
    positions.cache_clear()
    assert positions(1.0, 64, 3) == one
    assert positions((1, "x"), 64, 3) != positions((1, "y"), 64, 3)
    assert flip_bytes(2, 512) == 4
    assert flip_bytes(1000, 512) == 64
