"""Halves that are paced by marks: what waits, what is released, and values that go and come again."""

from __future__ import annotations

from watersmeet.plan.sites.semijoin.multiway.paced import PacedSource, PacedTarget
from watersmeet.plan.sites.semijoin.oneway.at_destination import OneStepDestination, OneStepToDestination
from watersmeet.plan.sites.semijoin.oneway.at_source import TwoStepSourceTarget
from watersmeet.plan.sites.semijoin.oneway.halves import Join, Probe
from watersmeet.plan.sites.semijoin.oneway.items import Item, Key, Member
from watersmeet.plan.sites.semijoin.oneway.messages import (
    Actions,
    Message,
    Output,
    Ship,
    Tuples,
    Values,
    Vectors,
)
from watersmeet.query import NEVER


def key_of(item: Item) -> Key:
    return item.members[0].keys[0]


def item(number: int, key: str, ts: int, end: int) -> Item:
    return Item(ts, end, number, (Member(number, ts, end, (key,)),))


def join() -> Join:
    probe = Probe(source_key=key_of, source_bytes=10.0, source_key_bytes=1.0, target_first=True)
    return Join(
        probes=(probe,),
        target_key=key_of,
        target_bytes=10.0,
        target_key_bytes=1.0,
        interval_us=10,
        marks=True,
    )


def shipped(actions: Actions) -> list[Message]:
    return [action.message for action in actions if isinstance(action, Ship)]


def test_an_answer_that_is_late_is_of_the_spell_that_was_asked_about() -> None:
    """k leaves W2 in interval 1 and comes again in 5; what interval 0 has asked for is not what came in 5."""
    half = TwoStepSourceTarget(join())
    target = PacedTarget(half, 1)
    target.put(0, [item(0, "k", 1, 9)])
    target.put(5, [item(1, "k", 55, 90)])
    target.mark = 5
    target.run()
    target.hear(Values(0, ["k"]))
    (answer,) = shipped(target.run())
    assert isinstance(answer, Tuples)
    assert [one.number for one in answer.items] == [0]
    target.put(6, [item(2, "k", 65, 90)])
    target.mark = 6
    for message in shipped(target.run()):
        assert isinstance(message, Vectors)
        assert message.update is None or message.update.full == (), "nobody has asked about this spell"


def test_what_has_left_is_kept_until_no_batch_can_ask_for_it() -> None:
    target = PacedTarget(OneStepDestination(join()), 1)
    target.put(0, [item(0, "k", 1, 9)])
    target.mark = 7
    updates = [message.update for message in shipped(target.run()) if isinstance(message, Vectors)]
    assert [(one.values, one.gone) for one in updates if one is not None] == [(("k",), ()), ((), (0,))]
    target.hear(Tuples(0, [item(0, "k", 5, 50)]))
    (output,) = (action for action in target.run() if isinstance(action, Output))
    assert output.count == 1
    assert target.half.held == 1
    target.asked, target.sent = [0], [0]
    target.run()
    assert target.half.held == 0


def test_a_batch_probes_the_copy_as_its_own_interval_had_it() -> None:
    """W2 is far ahead: k has come, and gone again, before S1's batch of interval 0 is there."""
    there, here = PacedTarget(OneStepDestination(join()), 1), PacedSource(OneStepToDestination(join()), 1)
    there.put(0, [item(0, "k", 1, 9)])
    there.mark = NEVER
    for message in shipped(there.run()):
        here.hear(message)
    here.copied = NEVER
    assert here.run() == [] or not shipped(here.run())
    here.put(0, 0, [item(0, "k", 5, 50)])
    here.put(3, 0, [item(1, "k", 35, 80)])
    here.marks = [NEVER]
    sent = [message for message in shipped(here.run()) if isinstance(message, Tuples)]
    assert [(message.interval, [one.number for one in message.items]) for message in sent] == [(0, [0])]
