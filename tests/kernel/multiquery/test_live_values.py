"""Results choose the way on which they become the fewest, by what is alive of each value."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.kernel import LiveValues, decode_reports, encode_reports
from watersmeet.kernel.columns.hashing import hash_column
from watersmeet.query import NEVER, UNBOUNDED, range_us
from watersmeet.query.shared_dataflow import Expected, Feed, Relation, SharedDataflow, Way

EXPECTED = {"b": Expected("b", 100.0, 10.0), "c": Expected("c", 100.0, 20.0), "d": Expected("d", 4.0, 2.0)}
WAYS = (Way("by x", ("b",)), Way("by y", ("c",)))


def dataflow() -> SharedDataflow:
    feeds = tuple(
        Feed(name=name, stream=f"s_{name}", route="k", keys=(), columns=(), levels=(1,)) for name in EXPECTED
    )
    windows = {"b": range_us(100), "c": range_us(100), "d": UNBOUNDED}
    relations = tuple(
        Relation(
            name=name,
            level=1,
            source=name,
            window=windows[name],
            slot=name,
            route="k",
            keys=("k",),
            columns=(),
            streams=("s",),
        )
        for name in EXPECTED
    )
    return SharedDataflow(
        levels=1, streams=("s",), feeds=feeds, relations=relations, expected=tuple(EXPECTED.values())
    )


def keys(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64())


def heard(known: LiveValues, sent: dict[str, pa.Array], start: int, clock: int) -> LiveValues:
    told = decode_reports([encode_reports(sent, start)])
    return known.followed(dataflow(), told, {f"s_{name}": clock for name in EXPECTED})


def test_averages_decide_where_nothing_was_heard() -> None:
    chosen = LiveValues().choose(WAYS, [keys(1, 2), keys(1, 2)], EXPECTED)
    assert chosen.tolist() == [1, 1]  # 5 tuples of a value of c, 10 of one of b


def test_each_value_is_judged_by_itself_and_all_others_by_their_average() -> None:
    known = heard(LiveValues(), {"b": keys(*[1] * 90, *[2] * 10), "c": keys(*[1] * 50, *[2] * 50)}, 0, 0)
    x, y = keys(1, 2, 3, 3), keys(1, 2, 1, 3)
    # 90 against 50, 10 against 50, none against 50, none against none.
    assert known.choose(WAYS, [x, y], EXPECTED).tolist() == [1, 0, 0, 0]


def test_a_way_over_several_feeds_counts_what_one_result_becomes() -> None:
    known = heard(LiveValues(), {"b": keys(*[1] * 3), "c": keys(*[1] * 8), "d": keys(*[1] * 4)}, 0, 0)
    both = (Way("by x", ("b", "d")), Way("by y", ("c",)))
    assert known.choose(both, [keys(1), keys(1)], EXPECTED).tolist() == [1]  # 3 * 4 against 8
    assert known.choose(WAYS, [keys(1), keys(1)], EXPECTED).tolist() == [0]  # 3 against 8


def test_null_goes_where_it_is_dropped_at_once() -> None:
    known = heard(LiveValues(), {"b": keys(1), "c": keys(*[1] * 8)}, 0, 0)
    assert known.choose(WAYS, [keys(1, None), keys(None, 1)], EXPECTED).tolist() == [1, 0]


def test_tuples_fade_as_they_leave_their_window_and_stay_where_there_is_none() -> None:
    known = heard(LiveValues(), {"b": keys(*[1] * 90), "d": keys(*[1] * 90)}, 0, 0)
    later = heard(known, {"b": keys(*[2] * 5)}, 400, 400)
    assert later.summaries["b"].total < 10
    assert later.summaries["d"].total == 90
    one, two = (later.summaries["b"].counts[hashed] for hashed in _hashes(1, 2))
    assert two < 5
    assert one < 2


def test_the_end_of_the_input_changes_nothing() -> None:
    known = heard(LiveValues(), {"b": keys(1, 1)}, 0, 10)
    assert heard(known, {}, 0, NEVER) == known


def test_what_is_known_does_not_depend_on_the_order_of_what_is_heard_and_lasts() -> None:
    rng = np.random.default_rng(3)
    blobs = [encode_reports({"b": pa.array(rng.integers(0, 900, 300))}, n) for n in range(5)]
    after = {f"s_{name}": 40 for name in EXPECTED}
    one, other = (LiveValues().followed(dataflow(), decode_reports(b), after) for b in (blobs, blobs[::-1]))
    assert one == other
    assert LiveValues.from_json(json.loads(json.dumps(one.to_json()))) == one
    assert len(one.summaries["b"].counts) <= 64
    assert one.summaries["b"].total == pytest.approx(1500 * (1 - np.exp(-0.4)) / 0.4)


def _hashes(*values: int) -> list[int]:
    return [int(hashed) for hashed in hash_column(keys(*values))]
