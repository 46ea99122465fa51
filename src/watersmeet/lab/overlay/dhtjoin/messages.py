"""The messages of DHTJoin's nodes; `kind` is what the traffic is counted under."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from watersmeet.lab.overlay.dhtjoin.operators import Partial, Published
from watersmeet.lab.overlay.dhtjoin.query_table import QueryEntry


@dataclass(frozen=True, slots=True, eq=False)
class Disseminate:
    """A query for the arc of the ring that ends before `limit` (the paper's Dmsg)."""

    kind: ClassVar[str] = "disseminate"
    entry: QueryEntry
    limit: int
    sender: int


@dataclass(frozen=True, slots=True, eq=False)
class Gossip:
    """A query passed on sideways, with the nodes known to have been chosen (Gmsg and its L_d)."""

    kind: ClassVar[str] = "gossip"
    entry: QueryEntry
    chosen: frozenset[int]
    sender: int


@dataclass(frozen=True, slots=True, eq=False)
class GossipRound:
    """A node's own timer: pass a query on to one more neighbour."""

    kind: ClassVar[str] = "gossip round"
    qid: str


@dataclass(frozen=True, slots=True, eq=False)
class IndexTuple:
    """A tuple of a stream, sent to the node of its value of one attribute (the paper's Index)."""

    kind: ClassVar[str] = "index tuple"
    lane: str
    key: Hashable
    item: Published
    sender: int

    @property
    def items(self) -> tuple[Published, ...]:
        return (self.item,)


@dataclass(frozen=True, slots=True, eq=False)
class IndexPartial:
    """Partial results found together, sent on to the node of their value of the next attribute."""

    kind: ClassVar[str] = "index partial results"
    lane: str
    key: Hashable
    items: tuple[Partial, ...]
    sender: int


Index = IndexTuple | IndexPartial


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Rows for the node that asked."""

    kind: ClassVar[str] = "answers"
    qid: str
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ping:
    """A consumer tests whether a stream's source still runs."""

    kind: ClassVar[str] = "test"
    stream: str
    sender: int


@dataclass(frozen=True, slots=True, eq=False)
class Pong:
    """The answer: it does."""

    kind: ClassVar[str] = "test"
    stream: str


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    """A node's own timer: test its producers."""

    kind: ClassVar[str] = "tick"


@dataclass(frozen=True, slots=True, eq=False)
class Alert:
    """While a stream is missing, a query does not need a producer's output; or needs it again (alertMSG)."""

    kind: ClassVar[str] = "alert"
    qid: str
    producer: str  # a lane of a stream, or an operator
    missing: str
    action: Literal["suspend", "resume"]
