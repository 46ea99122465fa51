"""The interface between protocols and the overlay: messages, actions, and what a protocol must offer.

A protocol handles a message and returns actions; messages are addressed by key, or by a node's number where
the protocol knows it. Nothing here touches the network, the clock or a random generator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


class Message(Protocol):
    """Anything a protocol sends; `kind` is what its traffic is counted under.

    A message that carries several items says how many in `packed`.
    """

    kind: ClassVar[str]


def packed(message: Message) -> int:
    """How many messages it would be if nothing were packed together."""
    count: int = getattr(message, "packed", 1)
    return count


@dataclass(frozen=True, slots=True)
class Send:
    """Deliver to the node responsible for a key."""

    message: Message
    key: str


@dataclass(frozen=True, slots=True)
class MultiSend:
    """Deliver each message to the node responsible for its key, by grouped routing."""

    pairs: Sequence[tuple[Message, str]]


@dataclass(frozen=True, slots=True)
class Direct:
    """Deliver to a known node in one hop; with a key, to the node responsible for it by then."""

    message: Message
    address: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class DirectGroup:
    """Deliver several messages, each with its key, to one known node, in one hop."""

    pairs: Sequence[tuple[Message, str]]
    address: int


@dataclass(frozen=True, slots=True)
class Later:
    """Deliver to oneself after a while: a timer."""

    message: Message
    delay_us: int


Action = Send | MultiSend | Direct | DirectGroup | Later


def everything(key: str) -> bool:
    """The `moves` of `hand_over` when a node leaves: everything it keeps moves, whatever the key."""
    return True


class Application(Protocol):
    """A protocol's nodes, all of them: state by node number, messages in, actions out."""

    def receive(self, node: int, message: Any, now_us: int, rng: random.Random) -> Iterable[Action]:
        """A node handles a message and returns actions."""

    def hand_over(self, node: int, to: int, moves: Callable[[str], bool]) -> int:
        """Moves what a node keeps under keys for which `moves` holds; says how many items moved."""

    def forget(self, node: int) -> int:
        """A node's state is lost; says how many items were."""
