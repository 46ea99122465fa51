"""Pieces of a link that repeats itself: each counts once, and marks once all before them is there."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import DataError
from watersmeet.kernel import LinkBatch, LinkPieces
from watersmeet.kernel.progress.link_pieces import REMEMBERED

Piece = tuple[int, tuple[str, int], int, int]  # batch, group, piece, of how many
Message = Piece | int  # or the end of a batch


def batch(number: int, *, writer: str = "w", plan: str | None = None, link: str = "paris") -> LinkBatch:
    return LinkBatch(link, writer, number, f"plan {number}" if plan is None else plan)


def pieces_of(number: int, groups: dict[tuple[str, int], int]) -> list[Piece]:
    return [(number, group, piece, of) for group, of in groups.items() for piece in range(of)]


GROUPS = st.dictionaries(
    st.tuples(st.sampled_from(["a>0.0", "#1>0.1"]), st.integers(0, 2)), st.integers(1, 3)
)


@given(st.lists(GROUPS, min_size=1, max_size=6), st.integers(0, 10**6))
def test_each_piece_counts_once_and_marks_in_order_once_all_before_is_there(
    batches: list[dict[tuple[str, int], int]], seed: int
) -> None:
    """Whatever the order, whatever comes again, and with a restart after any message."""
    rng = random.Random(seed)
    numbers = sorted(rng.sample(range(20), len(batches)))
    sent: list[Message] = []
    for number, groups in zip(numbers, batches, strict=True):
        sent += [*pieces_of(number, groups), number]
    sent += rng.choices(sent, k=rng.randint(0, len(sent)))
    rng.shuffle(sent)
    known, counted, seen, marked = LinkPieces(), [], set[Message](), -1
    for message in sent:
        seen.add(message)
        if isinstance(message, int):
            at = numbers.index(message)
            before = numbers[at - 1] if at else -1
            known.end(batch(message), before, {"a": message}, list(batches[at]))
        elif known.take(batch(message[0]), *message[1:]):
            counted.append(message)
        if rng.random() < 0.3:
            known = LinkPieces.restore(json.loads(json.dumps(known.snapshot())))
        marked = max([marked, *known.due().values()])
        whole = [{*pieces_of(n, own), n} <= seen for n, own in zip(numbers, batches, strict=True)]
        wanted = [n for at, n in enumerate(numbers) if all(whole[: at + 1])]
        assert marked == max(wanted, default=-1)
    assert sorted(counted) == sorted(one for one in {*sent} if not isinstance(one, int))
    assert marked == numbers[-1]
    assert known.links["paris"].open == {}


def test_links_do_not_wait_for_each_other() -> None:
    known = LinkPieces()
    known.end(batch(4), 1, {"a": 7}, [])
    known.end(batch(0, link="rome"), -1, {"b": 5}, [])
    assert known.due() == {"b": 5}


def test_two_runs_on_one_topic_are_refused() -> None:
    known = LinkPieces()
    known.take(batch(0), ("a>0.0", 0), 0, 1)
    with pytest.raises(DataError, match="the link from paris brings rows of two runs, w and v"):
        known.take(batch(0, writer="v"), ("a>0.0", 0), 0, 1)


def test_another_batch_of_the_same_number_is_refused() -> None:
    """As after an older copy of the sender's checkpoint was put back; also if the first counts already."""
    known = LinkPieces()
    known.take(batch(0), ("a>0.0", 0), 0, 1)
    with pytest.raises(DataError, match="brings another batch 0 than before"):
        known.end(batch(0, plan="another"), -1, {}, [("a>0.0", 0)])
    known.end(batch(0), -1, {"a": 1}, [("a>0.0", 0)])
    assert known.due() == {"a": 1}
    with pytest.raises(DataError, match="an older copy of the checkpoint of paris had been put back"):
        known.take(batch(0, plan="another"), ("a>0.0", 0), 0, 1)
    assert not known.take(batch(0), ("a>0.0", 0), 0, 1)


def test_what_is_remembered_does_not_grow() -> None:
    known = LinkPieces()
    for number in range(3 * REMEMBERED):
        known.take(batch(number), ("a>0.0", 0), 0, 1)
        known.end(batch(number), number - 1, {"a": number}, [("a>0.0", 0)])
        assert known.due() == {"a": number}
    assert len(known.links["paris"].plans) == REMEMBERED
    assert not known.take(batch(0, plan="forgotten"), ("a>0.0", 0), 0, 1), "a repeat, whatever its plan"
