"""How much memory the state of a query takes, and how much of it gives which completeness.

An input holds the tuples of its window, each with its payload, its part of the indexes, and as many copies
as the routing makes. Under a limit the inputs share the memory evenly, what one does not need going to the
others, so input j keeps a share q_j of its window. An answer is found by the last of its tuples to come,
which needs the others kept. With windows W_h, input h brings that last tuple in a share of the answers that
goes by 1 / W_h, so

    C = sum over h of (1 / W_h) * product over j other than h of q_j, over the sum of all 1 / W_h

Two streams of one window with a third of each kept: C = 1/3. DHTJoin's equation (11) (see `completeness`) has
1/9 there, as it asks for the last tuple to be kept too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query
from watersmeet.query.byte_size import format_bytes, split_evenly

ENTRY_BYTES = 6.0  # of a tuple: its time, and its part of expired tuples that are not yet trimmed
INDEX_BYTES = 13.0  # of a tuple, for each class of its keys: link, head and bits, with the same part
FILLED = 0.92  # of a limit, on average: it is shed to 85 % and grows to 100 %
SPARE = 0.95  # live tuples up to this share of a limit are never shed
WORKER_BYTES = 170e6  # of a Python worker before it holds anything: Arrow, NumPy, Numba, pandas, Spark's own
LADDER = (0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@dataclass(frozen=True, kw_only=True)
class InputLoad:
    """What one input brings and keeps."""

    alias: str
    rate_per_s: float
    window_tuples: float
    payload_bytes: float  # of a tuple
    index_bytes: float  # of a tuple
    copies: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.window_tuples < math.inf or not 0 < self.rate_per_s < math.inf:
            raise ConfigurationError(
                f"{self.alias}: its window holds {self.window_tuples:g} tuples at {self.rate_per_s:g} a "
                "second; sizing needs a bounded window and a rate above 0"
            )

    @property
    def state_bytes(self) -> float:
        return self.window_tuples * self.copies * (self.payload_bytes + self.index_bytes)

    @property
    def window_s(self) -> float:
        return self.window_tuples / self.rate_per_s


def analysed_loads(query: Query, statistics: Statistics, copies: Mapping[str, int]) -> tuple[InputLoad, ...]:
    """Loads from measured statistics, local filters applied."""
    loads = []
    for item, source in zip(query.inputs, rate_model(query, statistics).sources, strict=True):
        _check_bounded(query, item.alias)
        classes = len(query.graph.classes_of(item.alias))
        index = ENTRY_BYTES + INDEX_BYTES * classes
        times = copies.get(item.alias, 1)
        loads.append(
            InputLoad(
                alias=item.alias,
                rate_per_s=source.rate_per_s,
                window_tuples=source.window_tuples,
                payload_bytes=source.tuple_bytes,
                index_bytes=index,
                copies=times,
            )
        )
    return tuple(loads)


def live_loads(query: Query, progress: Mapping[str, Any], copies: Mapping[str, int]) -> tuple[InputLoad, ...]:
    """Loads from what a run of the query has reported (`Progress` as JSON)."""
    reported = {item["alias"]: item for item in progress.get("inputs", ())}
    missing = [item.alias for item in query.inputs if item.alias not in reported]
    if missing:
        raise ConfigurationError(f"this is the progress of another query: it does not report {missing[0]}")
    kept = sum(item["kept"] for item in reported.values())
    payload = sum(item["kept_bytes"] for item in reported.values())
    if not kept:
        raise ConfigurationError("the query held no tuples when this was reported: size a later moment of it")
    index = max(0.0, (progress["memory_bytes"] - payload) / kept)
    loads = []
    for item in query.inputs:
        _check_bounded(query, item.alias)
        seen = reported[item.alias]
        rate = seen["event_rows_per_s"]
        if rate is None:
            raise ConfigurationError(
                f"{item.alias}: its rate is known from the second batch on, and there was one at most"
            )
        window, own = item.window, seen["kept_bytes"] / max(1, seen["kept"])
        tuples = rate * (window.duration_us or 0) / 1e6 if window.row_count is None else window.row_count
        tuples = seen["kept"] if window.partition else tuples
        loads.append(
            InputLoad(
                alias=item.alias,
                rate_per_s=rate,
                window_tuples=tuples,
                payload_bytes=own,
                index_bytes=index,
                copies=copies.get(item.alias, 1),
            )
        )
    return tuple(loads)


def _check_bounded(query: Query, alias: str) -> None:
    if not query.input(alias).window.is_bounded:
        raise ConfigurationError(f"{alias}: an unbounded window never fits; give it a bounded one")


def completeness_within(loads: Sequence[InputLoad], limit_bytes: float) -> float:
    """The share of answers found when the state may take so much."""
    needs = {number: load.state_bytes for number, load in enumerate(loads)}
    if sum(needs.values()) <= SPARE * limit_bytes:
        return 1.0
    given = split_evenly(needs, FILLED * limit_bytes)
    kept = {number: given[number] / need for number, need in needs.items()}
    found = due = 0.0
    for head, load in enumerate(loads):
        due += 1 / load.window_s
        found += math.prod(share for n, share in kept.items() if n != head) / load.window_s
    return found / due


def limit_for(loads: Sequence[InputLoad], target: float) -> float:
    """The least limit with which so large a share of the answers is found."""
    if not 0 < target <= 1:
        raise ConfigurationError(f"completeness is above 0 and at most 1, not {target}")
    low, high = 0.0, sum(load.state_bytes for load in loads) / SPARE
    for _ in range(60):
        middle = (low + high) / 2
        if completeness_within(loads, middle) >= target:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True)
class StateReport:
    """What `size` says of a pipeline's memory."""

    loads: tuple[InputLoad, ...]
    target: float
    partitions: int
    known_from: str

    @property
    def limit_bytes(self) -> float:
        return limit_for(self.loads, self.target)

    def to_json(self) -> dict[str, Any]:
        return {
            "known_from": self.known_from,
            "target": self.target,
            "state_limit_bytes": round(self.limit_bytes),
            "state_bytes": round(sum(load.state_bytes for load in self.loads)),
            "partitions": self.partitions,
            "worker_bytes": round(self._worker_bytes),
            "inputs": [{**asdict(load), "state_bytes": round(load.state_bytes)} for load in self.loads],
            "table": [
                {"completeness": share, "state_limit_bytes": round(limit_for(self.loads, share))}
                for share in LADDER
            ],
        }

    def pretty(self) -> str:
        limit = format_bytes(self.limit_bytes)
        lines = [
            f"--state-limit {limit.replace(' ', '')} for a completeness of {self.target:.4g}, "
            f"by {self.known_from}",
            f"in {self.partitions} partitions: {format_bytes(self._worker_bytes)} for each Python worker, "
            f"of which {format_bytes(WORKER_BYTES)} before it holds anything",
            "",
            f"{'input':<12} {'rate/s':>10} {'live tuples':>12} {'payload':>9} {'index':>9} {'state':>10}",
        ]
        for load in self.loads:
            copies = f"  in {load.copies} copies" if load.copies > 1 else ""
            lines.append(
                f"{load.alias:<12} {load.rate_per_s:>10.4g} {load.window_tuples:>12.6g} "
                f"{format_bytes(load.payload_bytes):>9} {format_bytes(load.index_bytes):>9} "
                f"{format_bytes(load.state_bytes):>10}{copies}"
            )
        lines += ["", f"{'completeness':>12} {'state limit':>12}"]
        for share in LADDER:
            lines.append(f"{share:>12.0%} {format_bytes(limit_for(self.loads, share)):>12}")
        return "\n".join(lines)

    @property
    def _worker_bytes(self) -> float:
        return WORKER_BYTES + self.limit_bytes / self.partitions
