"""How complete are the answers when windows do not fit in memory, and how many partitions would do?

After Palma, Akbarinia, Pacitti and Valduriez, DHTJoin (extended version), section 5. With n partitions, a
stream S_i has W_i * lambda_i / n tuples of its window in each, of which m(S_i) fit; an answer is found when
all its tuples are kept:

    C = n^m * prod m(S_i) / prod (W_i * lambda_i)             equations (7) for two streams, (11) for m
    n = (C * prod (W_i * lambda_i) / prod m(S_i))^(1/m)       equations (8) and (12)

The formulas are independent of selectivity; they take the values as spread evenly over the partitions and
the tuples dropped as no likelier to match than those kept.

Where we differ: the paper develops (11) from a loss that is zero once a window fits (equation (2)), but the
simplified form lets a factor exceed 1. We keep each factor at n * m(S_i) / (W_i * lambda_i) or 1, whichever
is less, so streams may have any memory, enough for some and not for others; where no window fits, this is
(11) and (12). Where one memory is shared by the streams of a partition, it is split so that C is greatest:
the product of kept shares asks for equal bytes each, and what one stream does not need goes to the others.

Example: two streams of 300 tuples/s under 10 s windows hold 3000 tuples each. With memory for 100 tuples of
each, 10 partitions keep a third of both windows: C = 1/9; for C = 0.81 it takes 27 partitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.plan.statistics.rate_model import rate_model
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import Query
from watersmeet.query.byte_size import split_evenly

TOLERANCE = 1e-9  # a target is met when completeness misses it by no more than rounding does
MAX_PARTITIONS = 2**40
PLOT_WIDTH = 40


@dataclass(frozen=True)
class StreamDemand:
    """A stream's window, W_i * lambda_i tuples, and how many of its tuples fit in one partition."""

    name: str
    window_tuples: float
    memory_tuples: float | None = None  # m(S_i); None where the partition's memory is shared
    tuple_bytes: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.window_tuples < math.inf):
            raise ConfigurationError(
                f"{self.name}: its window holds {self.window_tuples} tuples;"
                " completeness needs a bounded window and a rate above 0"
            )
        if self.memory_tuples is not None and not self.memory_tuples > 0:
            raise ConfigurationError(f"{self.name}: memory for {self.memory_tuples} tuples keeps no answer")
        if not self.tuple_bytes > 0:
            raise ConfigurationError(f"{self.name}: a tuple cannot have {self.tuple_bytes} bytes")


def kept_share(stream: StreamDemand, partitions: float) -> float:
    """The share of a stream's window that is kept."""
    return min(1.0, partitions * _memory(stream) / stream.window_tuples)


def completeness(streams: Sequence[StreamDemand], partitions: float) -> float:
    """The share of answers found: equation (11), each factor at most 1.

    >>> round(completeness([StreamDemand("r", 3000, 100), StreamDemand("s", 3000, 100)], 10), 4)
    0.1111
    """
    if not partitions > 0:
        raise ConfigurationError(f"answers need at least one partition, not {partitions}")
    return math.prod(kept_share(stream, partitions) for stream in streams)


def exact_partitions(streams: Sequence[StreamDemand], target: float) -> float:
    """Equation (12), as a real number: where completeness reaches the target exactly."""
    _check_target(target)
    # A stream is kept whole from W * lambda / m partitions on. Take the streams from the hungriest down;
    # equation (12) over those still short holds as soon as the next stream is kept whole.
    whole_at = sorted(((stream.window_tuples / _memory(stream)) for stream in streams), reverse=True)
    log_needs = 0.0
    for short, need in enumerate(whole_at, start=1):
        log_needs += math.log(need)
        partitions = math.exp((math.log(target) + log_needs) / short)
        if short == len(whole_at) or partitions >= whole_at[short]:
            return partitions
    raise ConfigurationError("completeness needs at least one stream")


def _memory(stream: StreamDemand) -> float:
    if stream.memory_tuples is None:
        raise ConfigurationError(f"{stream.name}: say how many of its tuples fit in one partition")
    return stream.memory_tuples


def partitions_needed(streams: Sequence[StreamDemand], target: float) -> int:
    """The fewest partitions whose completeness is at least the target."""
    count = max(1, math.ceil(exact_partitions(streams, target) * (1 - TOLERANCE)))
    while completeness(streams, count) < target * (1 - TOLERANCE):
        count += 1
    return count


def split_memory(
    streams: Sequence[StreamDemand], partitions: float, memory_bytes: float
) -> tuple[StreamDemand, ...]:
    """Give each stream its part of a partition's memory so that completeness is greatest.

    Equal bytes each, but never more than a stream's part of its window needs.
    """
    if not memory_bytes > 0:
        raise ConfigurationError(f"a partition needs memory, not {memory_bytes} bytes")
    needs = {n: stream.window_tuples * stream.tuple_bytes / partitions for n, stream in enumerate(streams)}
    given = split_evenly(needs, memory_bytes)
    return tuple(
        replace(stream, memory_tuples=given[n] / stream.tuple_bytes) for n, stream in enumerate(streams)
    )


def stream_demands(
    query: Query, statistics: Statistics, memory_tuples: Mapping[str, float] | None = None
) -> tuple[StreamDemand, ...]:
    """What each input of a query asks of memory, its local filter applied; `memory_tuples` goes by alias."""
    unknown = sorted(set(memory_tuples or {}) - set(query.graph.aliases))
    if unknown:
        raise ConfigurationError(
            f"memory is given for {', '.join(unknown)}, but the query's inputs are"
            f" {', '.join(query.graph.aliases)}"
        )
    demands = []
    for item, source in zip(query.inputs, rate_model(query, statistics).sources, strict=True):
        if not item.window.is_bounded:
            raise ConfigurationError(f"{item.alias}: an unbounded window never fits; give it a bounded one")
        memory = None if memory_tuples is None else memory_tuples.get(item.alias)
        demands.append(StreamDemand(item.alias, source.window_tuples, memory, source.tuple_bytes))
    return tuple(demands)


def typed_demands(
    rates_per_s: Sequence[float],
    windows_s: Sequence[float],
    memory_tuples: Sequence[float] = (),
    tuple_bytes: Sequence[float] = (1.0,),
) -> tuple[StreamDemand, ...]:
    """Streams s1, s2, ... from plain numbers; a single window, memory or size holds for all of them.

    >>> [(demand.name, demand.window_tuples) for demand in typed_demands([300, 30], [10])]
    [('s1', 3000), ('s2', 300)]
    """

    def each(what: str, given: Sequence[float]) -> Sequence[float]:
        if len(given) not in (1, len(rates_per_s)):
            raise ConfigurationError(
                f"{len(rates_per_s)} rates but {len(given)} {what}: give one for all, or one for each"
            )
        return given if len(given) == len(rates_per_s) else [*given] * len(rates_per_s)

    windows = each("windows", windows_s)
    memory: Sequence[float | None] = (
        each("memories", memory_tuples) if memory_tuples else [None] * len(windows)
    )
    numbers = zip(rates_per_s, windows, memory, each("sizes", tuple_bytes), strict=True)
    return tuple(
        StreamDemand(f"s{n}", rate * window, kept, length)
        for n, (rate, window, kept, length) in enumerate(numbers, start=1)
    )


@dataclass(frozen=True, kw_only=True)
class SizeReport:
    """What `size` says: the partitions a target takes, and the completeness of other numbers of them."""

    streams: tuple[StreamDemand, ...]  # with the memory each has at `needed` partitions
    target: float
    needed: int
    table: tuple[tuple[int, float], ...]  # partitions, completeness
    partitions: int | None = None
    completeness: float | None = None  # at `partitions`

    def to_json(self) -> dict[str, Any]:
        given = {"partitions": self.partitions, "completeness": self.completeness}
        return {
            "target": self.target,
            "partitions_needed": self.needed,
            **(given if self.partitions is not None else {}),
            "streams": [vars(stream) for stream in self.streams],
            "table": [{"partitions": count, "completeness": share} for count, share in self.table],
        }

    def pretty(self) -> str:
        lines = [f"{self.needed} partitions for a completeness of {self.target:.4g}"]
        if self.partitions is not None and self.completeness is not None:
            lines.append(f"{self.partitions} partitions give {self.completeness:.4g}")
        lines += ["", f"{'stream':<12} {'window tuples':>14} {'kept a partition':>17} {'kept':>7}"]
        for stream in self.streams:
            memory = min(_memory(stream), stream.window_tuples / self.needed)
            lines.append(
                f"{stream.name:<12} {stream.window_tuples:>14.6g} {memory:>17.6g}"
                f" {kept_share(stream, self.needed):>7.1%}"
            )
        lines += ["", f"{'partitions':>10} {'completeness':>12}"]
        for count, share in self.table:
            bar = "#" * round(share * PLOT_WIDTH)
            lines.append(f"{count:>10} {share:>12.4f} {bar}".rstrip())
        return "\n".join(lines)


def size(
    streams: Sequence[StreamDemand],
    target: float,
    *,
    partitions: int | None = None,
    memory_bytes: float | None = None,
) -> SizeReport:
    """Size a deployment: each stream with its own memory, or `memory_bytes` a partition shared by all."""
    if not streams:
        raise ConfigurationError("completeness needs at least one stream")
    _check_target(target)
    if partitions is not None and partitions < 1:
        raise ConfigurationError(f"answers need at least one partition, not {partitions}")

    def at(count: int) -> tuple[StreamDemand, ...]:
        return tuple(streams) if memory_bytes is None else split_memory(streams, count, memory_bytes)

    if memory_bytes is None:
        needed = partitions_needed(streams, target)
    else:
        needed = _first_reaching(lambda count: completeness(at(count), count), target)
    counts = sorted({*_ladder(needed), *([partitions] if partitions else [])})
    return SizeReport(
        streams=at(needed),
        target=target,
        needed=needed,
        table=tuple((count, completeness(at(count), count)) for count in counts),
        partitions=partitions,
        completeness=completeness(at(partitions), partitions) if partitions else None,
    )


def _first_reaching(share_at: Callable[[int], float], target: float) -> int:
    """The fewest partitions that reach the target, for a share that grows with them."""
    high = 1
    while share_at(high) < target * (1 - TOLERANCE):
        high *= 2
        if high > MAX_PARTITIONS:
            raise ConfigurationError(f"no number of partitions up to {MAX_PARTITIONS} reaches {target}")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if share_at(middle) < target * (1 - TOLERANCE):
            low = middle
        else:
            high = middle
    return high


def _ladder(needed: int) -> list[int]:
    """A few numbers of partitions around the one needed: its fractions, itself, and a little more."""
    return [max(1, math.ceil(needed * share)) for share in (0.125, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2)]


def _check_target(target: float) -> None:
    if not 0 < target <= 1:
        raise ConfigurationError(f"completeness is above 0 and at most 1, not {target}")
