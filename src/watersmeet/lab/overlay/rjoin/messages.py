"""The messages of RJoin's nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from watersmeet.lab.overlay.rjoin.query import JoinQuery, Published, Rewriting, Row


class Rate(NamedTuple):
    """RIC information: recent tuples under a key, when that was learned, and the responsible node."""

    tuples: int
    learned_us: int
    address: int


Rates = dict[str, Rate]


@dataclass(slots=True)
class NewTuple:
    """Procedure 1: a tuple, indexed under one of its keys."""

    kind: ClassVar[str] = "tuple"
    tuple_: Published
    key: str
    at_value_level: bool

    def __str__(self) -> str:
        return f"{self.tuple_.pretty()} under {self.key}"


@dataclass(slots=True)
class Count:
    """A tuple for the node that keeps the order of its whole relation, for tuple windows."""

    kind: ClassVar[str] = "tuple"
    tuple_: Published

    def __str__(self) -> str:
        return f"{self.tuple_.pretty()} to be counted"


@dataclass(slots=True)
class Eval:
    """Procedure 3: rewritten queries, to be kept under a key, with the RIC information they carry."""

    kind: ClassVar[str] = "rewritten"
    queries: list[Rewriting]
    key: str
    rates: Rates = field(default_factory=dict)

    @property
    def packed(self) -> int:
        return len(self.queries)

    def __str__(self) -> str:
        return f"{'; '.join(query.pretty() for query in self.queries)} under {self.key}"


@dataclass(slots=True)
class Index(Eval):
    """Input queries, to be kept at the attribute level."""

    kind: ClassVar[str] = "query"


@dataclass(slots=True)
class AskRates:
    """A request for RIC information: from candidate to candidate, then back to the node that asked."""

    kind: ClassVar[str] = "ric"
    key: str
    keys_after: list[str]
    asker: int
    ticket: int
    rates: Rates

    def __str__(self) -> str:
        return f"asks for the rate of {self.key}, for node {self.asker}"


@dataclass(slots=True)
class ReportRates:
    """All that an `AskRates` collected, in one hop."""

    kind: ClassVar[str] = "ric"
    rates: Rates
    ticket: int

    def __str__(self) -> str:
        return "reports " + ", ".join(f"{key}: {rate.tuples}" for key, rate in self.rates.items())


@dataclass(slots=True, kw_only=True)
class Verify:
    """A combination to be checked against the tuple windows still to be checked."""

    kind: ClassVar[str] = "verify"
    query: JoinQuery
    members: list[Published]
    t: int
    end: int
    row: Row
    left: tuple[int, ...]

    def __str__(self) -> str:
        return f"is {self.row} of q{self.query.number} inside {self.query.streams[self.left[0]]}'s window?"


@dataclass(slots=True)
class Answer:
    """An answer for the node that posed the query."""

    kind: ClassVar[str] = "answer"
    query: JoinQuery
    row: Row
    t: int
    end: int

    def __str__(self) -> str:
        return f"answer {self.row} of q{self.query.number}"


@dataclass(slots=True)
class Submit:
    """A query posed at a node (from its user, not from the network)."""

    kind: ClassVar[str] = "user"
    query: JoinQuery


@dataclass(slots=True)
class Publish:
    """A tuple published at a node (from its user, not from the network)."""

    kind: ClassVar[str] = "user"
    tuple_: Published
