"""The watermark follows the slowest stream, never goes back, and does not wait for the idle."""

from __future__ import annotations

from watersmeet.kernel import Marks, Patience, Watermark
from watersmeet.query import BEGINNING, NEVER


def test_it_is_the_least_of_the_streams_minus_their_lateness() -> None:
    watermark = Watermark({"a": Patience(5), "b": Patience(0)})
    assert watermark.advance(Marks({"a": 100})) == BEGINNING
    assert watermark.advance(Marks({"b": 50})) == 50
    assert watermark.advance(Marks({"b": 200})) == 95


def test_it_never_goes_back() -> None:
    watermark = Watermark({"a": Patience(0)})
    assert watermark.advance(Marks({"a": 100})) == 100
    assert watermark.advance(Marks({"a": 40})) == 100


def test_a_silent_stream_is_waited_for_only_so_long() -> None:
    watermark = Watermark({"a": Patience(), "b": Patience(0, idle_after_us=1000)})
    assert watermark.advance(Marks({"a": 10}, now_us=0)) == BEGINNING
    assert watermark.advance(Marks({"a": 20}, now_us=1000)) == BEGINNING
    assert watermark.advance(Marks({"a": 30}, now_us=1001)) == 30
    assert watermark.advance(Marks({"b": 25}, now_us=1002)) == 30


def test_all_streams_idle_leave_it_where_it_is() -> None:
    watermark = Watermark({"a": Patience(0, idle_after_us=10)})
    watermark.advance(Marks({"a": 7}, now_us=0))
    assert watermark.advance(Marks({}, now_us=100)) == 7


def test_the_end_of_the_input_is_the_end_of_time() -> None:
    watermark = Watermark({"a": Patience(), "b": Patience()})
    assert watermark.advance(Marks(is_end=True)) == NEVER


def test_it_is_restored_as_it_was() -> None:
    patience = {"a": Patience(1), "b": Patience(2, 50)}
    watermark = Watermark(patience)
    watermark.advance(Marks({"a": 10, "b": 20}, now_us=5))
    restored = Watermark.restore(patience, watermark.snapshot())
    assert (
        restored.advance(Marks({"a": 99}, now_us=60)) == watermark.advance(Marks({"a": 99}, now_us=60)) == 98
    )
