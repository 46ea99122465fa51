"""How much each stream may put into the next micro-batch while a backlog is worked off.

A batch should cover about the same span of event time of every stream: what one stream is ahead of another
has to be kept as state until the other has come as far. So each stream gets a share of the batch's bytes in
proportion to its density (rows a second of event time, as the latest batches had it), and a stream that is
ahead of the slowest by more than the span of a batch waits. What is allowed follows the bytes that really
arrived, too: where batches come out larger than they should, because files were compressed better than was
assumed, all allowances shrink.

    s1 has 3 rows a second, s2 has 1; a batch may have 400 rows: s1 gets 300, s2 100, both cover 100 seconds
    s2 begins an hour after s1: after the first batch it waits until s1 has come there

Only streams under a limit of ours are held back. One whose declaration limits it is taken as it comes.

A stream waits for others that have a backlog themselves, not for those that are merely slow: in a run that
goes on for ever one has a backlog while it fills half of its share. Waiting never makes a tuple late that is
within its stream's lateness, because the watermark never passes what the waiting stream has reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet.spark.sources.batch_limits import LEAST_SHARE, BatchLimit

MEMORY = 0.7  # how much of what was learnt of a stream's density is still valid after a batch
TOO_LARGE = 1.25  # a batch is this many times larger than it should be before allowances shrink
MOST_SHRINKING = 4.0  # at once
FULL = 0.5  # a stream that fills this part of its share has a backlog


@dataclass(frozen=True)
class StreamBatch:
    """One stream in one batch: its rows, and the latest event time that it has reached."""

    rows: int
    max_ts_us: int | None


@dataclass
class _Course:
    """How a stream moves: rows and event time of its latest batches, the older ones counting less."""

    reached_us: int | None = None
    rows: float = 0.0
    span_us: float = 0.0
    moves: bool = False  # in the latest batch
    last_rows: int = 0

    def advance(self, batch: StreamBatch) -> None:
        before, reached = self.reached_us, batch.max_ts_us
        advances = reached is not None and before is not None and reached > before
        self.last_rows = batch.rows
        self.moves = batch.rows > 0 or advances or (before is None and reached is not None)
        if reached is not None and before is not None and (batch.rows or advances):
            self.rows = MEMORY * self.rows + batch.rows
            self.span_us = MEMORY * self.span_us + max(0, reached - before)
        self.reached_us = max((time for time in (before, reached) if time is not None), default=None)

    @property
    def density(self) -> float | None:
        """Rows a microsecond of event time, as far as it is known."""
        return self.rows / self.span_us if self.span_us > 0 and self.rows > 0 else None


@dataclass
class Pace:
    """Learns from every batch, and says what each stream may put into those to come; 0 makes it wait.

    `limits` are those of the streams that may be held back or let go further, `nbytes` is what a batch of all
    of them should have. `is_finite` says that all there is to read is a backlog.
    """

    limits: Mapping[str, BatchLimit]
    nbytes: int
    is_finite: bool = False
    waiting: frozenset[str] = frozenset()
    _courses: dict[str, _Course] = field(default_factory=dict)
    _row_bytes: float = 0.0
    _excess: float = 1.0  # how many times larger than estimated tuples turn out to be
    _has_shrunk: bool = False  # by the latest batch: the next one may have been planned before that

    def advance(self, streams: Mapping[str, StreamBatch], arrived_bytes: int) -> dict[str, int]:
        """What each stream may put into a batch from now on, in the unit of its limit."""
        for name, batch in streams.items():
            self._courses.setdefault(name, _Course()).advance(batch)
        rows = sum(batch.rows for batch in streams.values())
        if rows and arrived_bytes:
            self._row_bytes = arrived_bytes / rows
            self._correct(arrived_bytes)
        self.waiting = frozenset(self._ahead())
        return self.allowances()

    def release(self) -> dict[str, int]:
        """The same with no stream waiting, as long as nothing more is known."""
        self.waiting = frozenset()
        return self.allowances()

    def allowances(self) -> dict[str, int]:
        """What each stream may put into a batch as things stand."""
        shares = self._shares()
        return {
            name: 0
            if name in self.waiting
            else max(1, int(self.nbytes * shares[name] / (limit.unit_bytes * self._excess)))
            for name, limit in self.limits.items()
        }

    def _correct(self, arrived_bytes: int) -> None:
        if arrived_bytes > TOO_LARGE * self.nbytes and not self._has_shrunk:
            self._excess *= min(MOST_SHRINKING, arrived_bytes / self.nbytes)
            self._has_shrunk = True
            return
        if arrived_bytes < self.nbytes / 2:
            self._excess = max(1.0, self._excess * 0.9)
        self._has_shrunk = False

    def _shares(self) -> dict[str, float]:
        """The part of a batch that each stream gets; what it got at the start until its density is known."""
        given = {name: limit.amount * limit.unit_bytes for name, limit in self.limits.items()}
        shares = {name: nbytes / sum(given.values()) for name, nbytes in given.items()}
        known = {name: density for name in self.limits if (density := self._density(name)) is not None}
        rest, total = sum(shares[name] for name in known), sum(known.values())
        return shares | {name: max(LEAST_SHARE, rest * density / total) for name, density in known.items()}

    def _density(self, name: str) -> float | None:
        course = self._courses.get(name)
        return None if course is None else course.density

    def _ahead(self) -> list[str]:
        """The streams that are ahead of the slowest with a backlog by more than the span of a batch."""
        behind = [
            course.reached_us
            for name, course in self._courses.items()
            if course.moves and name not in self.waiting and course.reached_us is not None
            if self.is_finite or self._is_full(name)
        ]
        span_us = self._span_us()
        if not behind or span_us is None:
            return []
        furthest = min(behind) + span_us
        reached = {name: self._courses[name].reached_us for name in self.limits if name in self._courses}
        return [name for name, time in reached.items() if time is not None and time > furthest]

    def _span_us(self) -> float | None:
        """The event time that a batch covers, once that can be told."""
        densities = [density for name in self._courses if (density := self._density(name)) is not None]
        row_bytes = sum(densities) * self._row_bytes
        return self.nbytes / row_bytes if row_bytes else None

    def _is_full(self, name: str) -> bool:
        """Whether a stream has filled its share of the latest batch, so that there is more of it."""
        limit, course = self.limits.get(name), self._courses[name]
        if limit is None:
            return False
        brought = course.last_rows * self._row_bytes
        return brought >= FULL * self._shares()[name] * self.nbytes / self._excess
