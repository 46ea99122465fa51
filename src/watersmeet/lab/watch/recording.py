"""A recorded run: every message in order of arrival, and what each node keeps after it.

A `Recorder` stands between an overlay and its protocol. The overlay reports each message sent
(`Delivery`) to it, and hands it each message that arrives; it passes that on to the protocol, then looks at
what the nodes keep. So a recording shows the protocol's own state and messages, nothing made up for display.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from watersmeet.lab.overlay.actions import Action, Application
from watersmeet.lab.overlay.network import Delivery, Overlay


@dataclass(frozen=True)
class Holding:
    """A query, tuple or answer at a node."""

    what: Literal["query", "tuple", "answer"]
    text: str


Holdings = Mapping[int, Sequence[Holding]]  # by node; one that keeps nothing may be absent


@dataclass(frozen=True, kw_only=True)
class Step:
    """One message that arrived: the nodes it passed, what it said, and what all nodes keep after it."""

    time_us: int
    path: tuple[int, ...]
    kind: str
    key: str | None
    text: str
    holdings: Holdings


@dataclass(frozen=True)
class Event:
    """A user's action at a node, what the nodes kept just before, and the messages it caused."""

    title: str
    node: int
    before: Holdings
    steps: Sequence[Step]


@dataclass(frozen=True)
class Recording:
    """A whole run; nodes are in ring order, clockwise."""

    title: str
    nodes: Sequence[int]
    events: Sequence[Event]
    at_end: Holdings

    @property
    def messages(self) -> int:
        return sum(len(event.steps) for event in self.events)


class Recorder:
    """Records what arrives at a protocol's nodes. Give `note` to the overlay as its watch, then attach."""

    def __init__(self) -> None:
        self._under_way: list[Delivery] = []
        self._events: list[tuple[str, int, Holdings, list[Step]]] = []
        self._application: Application
        self._look: Callable[[], Holdings]
        self._describe: Callable[[Any], str]

    def attach(
        self, overlay: Overlay, look: Callable[[], Holdings], describe: Callable[[Any], str] = str
    ) -> None:
        """From now on the overlay's messages reach its protocol by way of this recorder."""
        self._application, overlay.application = overlay.application, self
        self._look, self._describe = look, describe

    def note(self, delivery: Delivery) -> None:
        """The overlay sent a message."""
        self._under_way.append(delivery)

    def begin(self, title: str, node: int) -> None:
        """A user acts at a node; the messages from here on are of this event."""
        self._events.append((title, node, self._look(), []))

    def recording(self, title: str, nodes: Sequence[int]) -> Recording:
        """All that was recorded so far."""
        events = [Event(*event[:3], steps=tuple(event[3])) for event in self._events]
        return Recording(title, tuple(nodes), tuple(events), self._look())

    def receive(self, node: int, message: Any, now_us: int, rng: random.Random) -> Iterable[Action]:
        actions = list(self._application.receive(node, message, now_us, rng))
        sent = next((sent for sent in self._under_way if sent.message is message), None)
        if sent is not None:  # a node's own timer was never sent
            self._under_way.remove(sent)
            text = self._describe(message)
            self._events[-1][3].append(
                Step(
                    time_us=now_us,
                    path=sent.path,
                    kind=message.kind,
                    key=sent.key,
                    text=text,
                    holdings=self._look(),
                )
            )
        return actions

    def hand_over(self, node: int, to: int, moves: Callable[[str], bool]) -> int:
        return self._application.hand_over(node, to, moves)

    def forget(self, node: int) -> int:
        return self._application.forget(node)
