"""How an RJoin network is to run, and the Delta that loses no answers (RJoin section 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.rjoin.indexing import STRATEGIES, Strategy
from watersmeet.query import NEVER


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How RJoin is to run."""

    strategy: Strategy = "ric"
    altt_us: int | None = 0  # Delta; 0 will do without delays; None: no ALTT; NEVER: for one-time queries
    transit_us: int = 0  # the longest a tuple may be under way; `safe_settings` computes both for a delay
    pairs_for_rewritten: bool = False  # section 6, case (a)
    replicas: int = 1  # of each query kept at the attribute level
    ric_window_us: int | None = None  # how far back rates are counted; None: from the start
    ric_max_age_us: int | None = None  # when cached rates are asked for again; None: never
    tuple_windows: bool = False  # whether relations are counted, for ROWS windows
    keep_answers: bool = True

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigurationError(f"a strategy is one of {', '.join(STRATEGIES)}, not {self.strategy!r}")
        if self.pairs_for_rewritten and self.altt_us != NEVER:
            raise ConfigurationError(
                "rewritten queries can wait for a pair only where tuples stay for ever: set altt_us=NEVER"
            )
        if self.replicas < 1:
            raise ConfigurationError("a query is kept at least once: replicas must be 1 or more")


def lookup_hops(nodes: int) -> int:
    """More hops than a lookup in a stable ring of about so many nodes takes.

    Every hop at least halves the distance, and after 2 log2 N halvings an arc this short holds, with high
    probability, no further node.
    """
    return 2 * math.ceil(math.log2(max(2, nodes))) + 2


def query_transit_us(delay_bound_us: int, nodes: int, candidates: int) -> int:
    """Delta: the longest a query can take to its first node, after asking all candidates for their rates."""
    return delay_bound_us * (lookup_hops(nodes) * (candidates + 1) + 2)


def tuple_transit_us(delay_bound_us: int, nodes: int, attributes: int) -> int:
    """The longest a tuple can take to the last of its keys, which are visited one after another."""
    return delay_bound_us * lookup_hops(nodes) * (2 * attributes + 1)
