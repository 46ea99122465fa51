"""Failures during execution: finding sources that are down, and suspending the work that waits for them.

After Palma, Akbarinia, Pacitti and Valduriez, DHTJoin (extended version), section 4.2, Procedures 1 and 2.
While a stream is down, partial results of the other inputs wait for it in vain. A consumer that finds a
stream missing alerts the producers of its other inputs to suspend the query, and they those below them,
unless another query still needs what they make; when the stream is back, they resume.

How a consumer finds out is left open by the paper ("always testing its producers"). Tuples are spread over
nodes by value, so silence at one node proves nothing; a node therefore asks the source of a stream that was
silent for `silent_us`, and takes it as missing when no answer comes for `answer_us`. It knows sources and
producers from their messages, and from the plan which streams stand below each of its inputs.

What it costs: partial results that are not made during an outage might have met a tuple of the missing stream
from before it, still in its window, or from after it; those answers are lost. With `silent_us` of at least
the window, none of the former are.

Example, ((X, Y) at b, Z) at c: the node of a value of c misses Z. It alerts the nodes that sent it X ⋈ Y,
which suspend the query and alert the sources of X and Y. A query X.b = Y.b goes on: X and Y keep coming.
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
class DetectionPolicy:
    """How often a node tests its producers, after how long a silence, and how long it waits for an answer."""

    every_us: int
    silent_us: int
    answer_us: int

    def __post_init__(self) -> None:
        if min(self.every_us, self.silent_us, self.answer_us) <= 0:
            raise ConfigurationError("testing producers needs times above zero")


class FailureDetector:
    """What one node knows of its producers."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.active: dict[str, Operator] = {}  # operators that have had arrivals here
        self.missing: set[str] = set()
        self._source_of: dict[str, int] = {}
        self._alive_us: dict[str, int] = {}
        self._asked_us: dict[str, int] = {}
        self._producers: dict[str, set[int]] = {}
        self._passed_on: dict[str, set[tuple[str, str]]] = {}  # producer -> queries and what they miss

    def note_arrival(self, message: Index, table: QueryTable, now_us: int) -> list[Direct]:
        """Note the sender of a message; a stream that was missing is back."""
        for operator, _ in table.readers(message.lane):
            self.active[operator.name] = operator
        self._producers.setdefault(message.lane, set()).add(message.sender)
        if isinstance(message, IndexTuple):
            return self._note_tuple(message.item, table, now_us, fresh=True)
        actions = []
        for item in message.items:
            for member in item.members.values():
                # Only the newest of a partial result's tuples can have been sent just now.
                actions += self._note_tuple(member, table, now_us, fresh=member.ts == item.t)
        return actions

    def _note_tuple(self, tuple_: Published, table: QueryTable, now_us: int, fresh: bool) -> list[Direct]:
        self._source_of[tuple_.stream] = tuple_.source
        self._alive_us.setdefault(tuple_.stream, now_us)
        return self.note_alive(tuple_.stream, table, now_us) if fresh else []

    def note_alive(self, stream: str, table: QueryTable, now_us: int) -> list[Direct]:
        """A stream's source is alive; if it was missing, its consumers resume."""
        self._alive_us[stream] = now_us
        self._asked_us.pop(stream, None)
        if stream not in self.missing:
            return []
        self.missing.discard(stream)
        return self._alert_all(table, stream, "resume")

    def test(self, policy: DetectionPolicy, table: QueryTable, now_us: int) -> list[Direct]:
        """Ask the sources of silent streams whether they run; alert where one has not answered."""
        actions = []
        below = {slot.leaf.stream.name for op in self.active.values() for slot in op.leaves if slot.leaf}
        for stream in sorted(below & self._source_of.keys()):
            if now_us - self._alive_us[stream] < policy.silent_us:
                continue
            asked = self._asked_us.setdefault(stream, now_us)
            if now_us - asked >= policy.answer_us and stream not in self.missing:
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

        When the last query that needed a producer is suspended, those suspended before it are passed on as
        well; and every suspension passed on is taken back, whoever needs the producer by then.
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
            yield Direct(Alert(qid, producer, missing, action), target)


def _streams(slot: Slot) -> set[str]:
    leaves = (slot,) if slot.leaf else slot.operator.leaves if slot.operator else ()
    return {leaf.leaf.stream.name for leaf in leaves if leaf.leaf}
