"""The messages between the halves of a one-way join, and their actions (Tran and Lee 2010, section 3).

A pair of halves may serve several steps of a plan, its *probes* (halves.py). What belongs to one of them
carries its number; what keeps the copy at the source up to date serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, Key
from watersmeet.plan.sites.semijoin.oneway.vectors import VectorUpdate

HEARTBEAT_BYTES = 16  # an interval's number and the time of sending, on every message
NUMBER_BYTES = 4  # the number of an item
END_BYTES = 8  # when an item under a ROWS window ends


class Message(Protocol):
    """Anything one half sends to the other."""

    @property
    def interval(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Tuples:
    """Full tuples: B1, B'1, B2 or dW'2; with B2 the ends of earlier ones."""

    interval: int
    items: Sequence[Item]
    ended: Sequence[Ended] = ()
    probe: int = 0


@dataclass(frozen=True, slots=True)
class Values:
    """Partial tuples: K1, K'1 or dV'2."""

    interval: int
    values: Sequence[Key]
    probe: int = 0


@dataclass(frozen=True, slots=True)
class Expired:
    """How many of the tuples sent have left W2 (Algorithm 8)."""

    interval: int
    count: int
    ended: Sequence[Ended] = ()


@dataclass(frozen=True, slots=True)
class Vectors:
    """An update of V2 (vectors.py); None when nothing changed."""

    interval: int
    update: VectorUpdate | None
    ended: Sequence[Ended] = ()


@dataclass(frozen=True, slots=True)
class Flips:
    """The bits of SM-B's filter that change."""

    interval: int
    bits: Sequence[int]


@dataclass(frozen=True, slots=True)
class Ship:
    """A message to the other half; `term` is the addend of the cost formula it stands for."""

    message: Message
    bytes: float  # of its content
    term: str
    framing: float = 0.0  # what a message takes besides
    batch: float = 0.0  # of its bytes, those of a stream's whole batch, which a site needs only once


@dataclass(frozen=True, slots=True)
class Work:
    """Time a site spends, under the name of its addend in the cost formula."""

    interval: int
    term: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Output:
    """All results of a batch; `count` is how many, also where the items are not wanted."""

    interval: int
    items: Sequence[Item]
    count: int
    probe: int = 0


@dataclass(frozen=True, slots=True)
class Wasted:
    """Tuples shipped because of a false positive."""

    interval: int
    tuples: int


Action = Ship | Work | Output | Wasted
Actions = list[Action]
