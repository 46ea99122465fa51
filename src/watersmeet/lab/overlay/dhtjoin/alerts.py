"""Failures during execution: who is missed, and who may rest until it is back.

After Palma, Akbarinia, Pacitti and Valduriez, DHTJoin (extended version), section 4.2, Procedures 1 and 2.
Where a stream has stopped, partial results of the other inputs wait for it in vain. A consumer that finds a
stream missing alerts the producers of its other inputs to suspend the query, and they those below them,
unless another query still needs what they make; when the stream is back, they resume.

How a consumer finds out is left open by the paper ("always testing its producers"). Tuples are spread over
nodes by value, so silence at one node proves nothing; a node therefore asks the source of a stream it has not
heard of for `silent_us`, and takes it as missing when no answer comes for `answer_us`. It knows sources and
producers from what they sent it, and from the plan which streams stand below each of its inputs.

What it costs: partial results that are not made during an outage might have met a tuple of the missing stream
from before it, still in its window, or from after it; those answers are lost. With `silent_us` of at least
the window, none of the former are.

Example, ((X, Y) at b, Z) at c: the node of a value of c misses Z. It tells the nodes that sent it X ⋈ Y to
suspend, and these tell the sources of X and Y. A query X.b = Y.b goes on unharmed: X and Y keep coming.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.actions import Direct
from watersmeet.lab.overlay.dhtjoin.messages import Alert, Index, IndexTuple, Ping
from watersmeet.lab.overlay.dhtjoin.operators import Operator, Published, Slot
from watersmeet.lab.overlay.dhtjoin.query_table import QueryTable


@dataclass(frozen=True)
class LatenessPolicy:
    """How often a node tests its producers, after how long a silence, and how long it waits for an answer."""

    every_us: int
    silent_us: int
    answer_us: int

    def __post_init__(self) -> None:
        if min(self.every_us, self.silent_us, self.answer_us) <= 0:
            raise ConfigurationError("testing producers needs times above zero")


class Watch:
    """What one node knows of its producers."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.active: dict[str, Operator] = {}  # operators that have had arrivals here
        self.missing: set[str] = set()
        self._source_of: dict[str, int] = {}
        self._heard_us: dict[str, int] = {}
        self._asked_us: dict[str, int] = {}
        self._producers: dict[str, set[int]] = {}
        self._passed_on: dict[str, set[tuple[str, str]]] = {}  # producer -> queries and what they miss

    def hear(self, message: Index, table: QueryTable, now_us: int) -> list[Direct]:
        """Note who sent what; a stream that was missed is back."""
        for operator, _ in table.readers(message.lane):
            self.active[operator.name] = operator
        self._producers.setdefault(message.lane, set()).add(message.sender)
        if isinstance(message, IndexTuple):
            return self._hear_tuple(message.item, table, now_us, fresh=True)
        actions = []
        for item in message.items:
            for member in item.members.values():
                # Only the newest of a partial result's tuples can have been sent just now.
                actions += self._hear_tuple(member, table, now_us, fresh=member.ts == item.t)
        return actions

    def _hear_tuple(self, tuple_: Published, table: QueryTable, now_us: int, fresh: bool) -> list[Direct]:
        self._source_of[tuple_.stream] = tuple_.source
        self._heard_us.setdefault(tuple_.stream, now_us)
        return self.hear_of(tuple_.stream, table, now_us) if fresh else []

    def hear_of(self, stream: str, table: QueryTable, now_us: int) -> list[Direct]:
        """A sign of life of a stream's source."""
        self._heard_us[stream] = now_us
        self._asked_us.pop(stream, None)
        if stream not in self.missing:
            return []
        self.missing.discard(stream)
        return self._alert_all(table, stream, "resume")

    def test(self, lateness: LatenessPolicy, table: QueryTable, now_us: int) -> list[Direct]:
        """Ask the sources of silent streams whether they run; alert where one has not answered."""
        actions = []
        below = {slot.leaf.stream.name for op in self.active.values() for slot in op.leaves if slot.leaf}
        for stream in sorted(below & self._source_of.keys()):
            if now_us - self._heard_us[stream] < lateness.silent_us:
                continue
            asked = self._asked_us.setdefault(stream, now_us)
            if now_us - asked >= lateness.answer_us and stream not in self.missing:
                self.missing.add(stream)
                actions += self._alert_all(table, stream, "suspend")
            actions.append(Direct(Ping(stream, self.node), self._source_of[stream]))
        return actions

    def _alert_all(
        self, table: QueryTable, stream: str, action: Literal["suspend", "resume"]
    ) -> list[Direct]:
        """Procedure 1: alert the producers of the inputs that wait for a missing stream."""
        actions: list[Direct] = []
        for operator in self.active.values():
            waiting = [slot for slot in operator.slots if stream not in _streams(slot)]
            if len(waiting) == len(operator.slots):
                continue
            for entry in table.users(operator):
                for slot in waiting:
                    actions += self._alert(slot, entry.qid, stream, action)
        return actions

    def handle(self, alert: Alert, table: QueryTable) -> list[Direct]:
        """Procedure 2: suspend or resume a query here, and below unless another query needs it.

        When the last query that needed a producer rests, those that rested before it are passed on as well;
        and what was passed on is called back, whoever needs the producer by then.
        """
        operator = table.operator(alert.producer)
        if alert.action == "suspend":
            table.suspend(alert.qid, alert.producer, alert.missing)
            if operator is None or table.others_need(alert.qid, alert.producer):
                return []
            news = table.suspensions(alert.producer) - self._passed_on.get(alert.producer, set())
            self._passed_on.setdefault(alert.producer, set()).update(news)
        else:
            table.resume(alert.qid, alert.producer, alert.missing)
            news = {(alert.qid, alert.missing)} & self._passed_on.get(alert.producer, set())
            self._passed_on.get(alert.producer, set()).difference_update(news)
        return [
            action
            for qid, missing in sorted(news)
            for slot in (operator.slots if operator else ())
            for action in self._alert(slot, qid, missing, alert.action)
        ]

    def _alert(
        self, slot: Slot, qid: str, missing: str, action: Literal["suspend", "resume"]
    ) -> Iterator[Direct]:
        if slot.leaf:
            known = self._source_of.get(slot.leaf.stream.name)
            targets, producer = ([] if known is None else [known]), slot.lane
        else:
            assert slot.operator
            targets, producer = sorted(self._producers.get(slot.lane, ())), slot.operator.name
        for target in targets:
            yield Direct(Alert(qid, producer, missing, action, self.node), target)


def _streams(slot: Slot) -> set[str]:
    leaves = (slot,) if slot.leaf else slot.operator.leaves if slot.operator else ()
    return {leaf.leaf.stream.name for leaf in leaves if leaf.leaf}
