"""The watermark follows the slowest stream, never goes back, and does not wait for the idle."""

from __future__ import annotations

from watersmeet.kernel import LatenessPolicy, Punctuation, Watermark
from watersmeet.query import BEGINNING, NEVER


def test_it_is_the_least_of_the_streams_minus_their_lateness() -> None:
    watermark = Watermark({"a": LatenessPolicy(5), "b": LatenessPolicy(0)})
    assert watermark.advance(Punctuation({"a": 100})) == BEGINNING
    assert watermark.advance(Punctuation({"b": 50})) == 50
    assert watermark.advance(Punctuation({"b": 200})) == 95


def test_it_never_goes_back() -> None:
    watermark = Watermark({"a": LatenessPolicy(0)})
    assert watermark.advance(Punctuation({"a": 100})) == 100
    assert watermark.advance(Punctuation({"a": 40})) == 100


def test_a_silent_stream_is_waited_for_only_so_long() -> None:
    watermark = Watermark({"a": LatenessPolicy(), "b": LatenessPolicy(0, idle_after_us=1000)})
    assert watermark.advance(Punctuation({"a": 10}, now_us=0)) == BEGINNING
    assert watermark.advance(Punctuation({"a": 20}, now_us=1000)) == BEGINNING
    assert watermark.advance(Punctuation({"a": 30}, now_us=1001)) == 30
    assert watermark.advance(Punctuation({"b": 25}, now_us=1002)) == 30


def test_all_streams_idle_leave_it_where_it_is() -> None:
    watermark = Watermark({"a": LatenessPolicy(0, idle_after_us=10)})
    watermark.advance(Punctuation({"a": 7}, now_us=0))
    assert watermark.advance(Punctuation({}, now_us=100)) == 7


def test_the_end_of_the_input_is_the_end_of_time() -> None:
    watermark = Watermark({"a": LatenessPolicy(), "b": LatenessPolicy()})
    assert watermark.advance(Punctuation(is_end=True)) == NEVER


def test_it_is_restored_as_it_was() -> None:
    lateness = {"a": LatenessPolicy(1), "b": LatenessPolicy(2, 50)}
    watermark = Watermark(lateness)
    watermark.advance(Punctuation({"a": 10, "b": 20}, now_us=5))
    restored = Watermark.restore(lateness, watermark.snapshot())
    assert (
        restored.advance(Punctuation({"a": 99}, now_us=60))
        == watermark.advance(Punctuation({"a": 99}, now_us=60))
        == 98
    )
