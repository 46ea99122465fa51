"""What a query means, as the plainest code: the contract every strategy and runtime is tested against.

A tuple has a lifetime [ts, end), given by its window. A combination of one tuple per input is an answer when
it meets every condition and the lifetimes of its tuples overlap, so when t = max ts comes before the first
end; the answer itself is valid during [t, end). For `a [RANGE 10 US], b [RANGE 5 US]` and tuples of one key

    a at 0 has [0, 11)     b at 3 has [3, 9)     a at 9 has [9, 20)

the only answer is (a at 0, b at 3), valid during [3, 9). Everything here is over small lists, in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import QueryError
from watersmeet.oracle.cast import cast_value
from watersmeet.oracle.evaluate import Rows, evaluate, evaluate_group
from watersmeet.query import (
    BEGINNING,
    NEVER,
    Aggregate,
    Input,
    Query,
    RangeWindow,
    RowsWindow,
    Stream,
    TumbleRowsWindow,
    TumbleWindow,
    UnboundedWindow,
    Window,
)
from watersmeet.query.values import canonical, order_key


@dataclass(frozen=True)
class Tuple:
    """One tuple of a stream: its event time in microseconds and its values by declared column name."""

    ts: int
    values: Mapping[str, Any]


MicroBatch = Mapping[str, Sequence[Tuple]]  # what arrived together, by stream name
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """A combination, in FROM order, valid during [t, end)."""

    t: int
    end: int
    combination: tuple[Tuple, ...]


@dataclass(frozen=True)
class Clock:
    """The time of each micro-batch, where it is known, and when the runs began that made them."""

    times: Sequence[int | None] = ()
    starts: Sequence[int] = (BEGINNING,)

    def time(self, batch: int) -> int | None:
        return self.times[batch] if batch < len(self.times) else None

    def running(self, before: int, now: int) -> int:
        """The time from one micro-batch to the next, as far as the query is known to have been running."""
        began = max((start for start in self.starts if start <= now), default=now)
        return max(0, now - max(before, began))


@dataclass(frozen=True)
class Arrivals:
    """The tuples that count of each stream, in order of arrival, what was left out, and the watermark."""

    accepted: dict[str, list[Tuple]]
    late: dict[str, int]
    ahead: dict[str, int]
    watermark: int


@dataclass(frozen=True)
class Run:
    """What a query emitted over a sequence of micro-batches, and how many tuples of each stream were late."""

    rows: list[Row]
    late: dict[str, int]
    ahead: dict[str, int]  # further ahead of their batch than the stream allows


def run(query: Query, batches: Iterable[MicroBatch], flush: bool = False, clock: Clock | None = None) -> Run:
    """Everything emitted once all batches are in; with `flush`, the end of the input is the end of time."""
    came = take_in(query, batches, clock)
    return Run(emitted(query, came.accepted, None if flush else came.watermark), came.late, came.ahead)


def accept(query: Query, batches: Iterable[MicroBatch]) -> tuple[dict[str, list[Tuple]], dict[str, int]]:
    """The tuples that count, in order of arrival, and how many were late, for each stream of the query."""
    came = take_in(query, batches)
    return came.accepted, came.late


def take_in(query: Query, batches: Iterable[MicroBatch], clock: Clock | None = None) -> Arrivals:
    """Goes through micro-batches: a tuple counts unless it is late, or too far ahead of its batch."""
    clock = clock or Clock()
    accepted: dict[str, list[Tuple]] = {stream.name: [] for stream in query.streams}
    late, ahead = dict.fromkeys(accepted, 0), dict.fromkeys(accepted, 0)
    silent_us = dict.fromkeys(accepted, 0)
    clocked: int | None = None  # the time of the batch before
    reached = BEGINNING
    for number, batch in enumerate(batches):
        if not any(batch.get(name) for name in accepted):
            continue
        now = clock.time(number)
        for stream in query.streams:
            arrived = batch.get(stream.name, ())
            due = [tuple_ for tuple_ in arrived if not _is_ahead(stream, tuple_, now)]
            in_time = [tuple_ for tuple_ in due if tuple_.ts >= reached]
            accepted[stream.name] += in_time
            late[stream.name] += len(due) - len(in_time)
            ahead[stream.name] += len(arrived) - len(due)
            if now is not None:
                passed_us = 0 if clocked is None else clock.running(clocked, now)
                silent_us[stream.name] = 0 if arrived else silent_us[stream.name] + passed_us
        idle = [] if now is None else [one for one in query.streams if _is_idle(one, silent_us[one.name])]
        clocked = clocked if now is None else now
        waited_for = [stream for stream in query.streams if stream not in idle]
        if waited_for:
            reached = max(reached, min(_bound(stream, accepted[stream.name]) for stream in waited_for))
    return Arrivals(accepted, late, ahead, reached)


def watermark(query: Query, seen: Mapping[str, Sequence[Tuple]]) -> int:
    """The instant before which no more tuples are taken; the beginning until every stream has been seen."""
    return min(_bound(stream, seen.get(stream.name, ())) for stream in query.streams)


def _bound(stream: Stream, seen: Sequence[Tuple]) -> int:
    """How far a stream has come, if its tuples are as late as they may be."""
    newest = max((tuple_.ts for tuple_ in seen), default=BEGINNING)
    return max(BEGINNING, newest - stream.lateness_us)


def _is_ahead(stream: Stream, tuple_: Tuple, now: int | None) -> bool:
    if now is None or stream.max_ahead_us is None or stream.event_time is None:
        return False
    return tuple_.ts > now + stream.max_ahead_us


def _is_idle(stream: Stream, silent_us: int) -> bool:
    return stream.idle_after_us is not None and silent_us > stream.idle_after_us


def answers(query: Query, streams: Mapping[str, Sequence[Tuple]]) -> list[Answer]:
    """Every answer over the tuples of each stream, by the time it appears."""
    partial = [_Partial(BEGINNING, NEVER, {}, {})]
    for item in _connected_order(query):
        partial = _extend(partial, item.alias, _candidates(query, item, streams.get(item.stream.name, ())))
    found = [
        Answer(part.t, part.end, tuple(part.members[item.alias] for item in query.inputs)) for part in partial
    ]
    kept = [answer for answer in found if _meets_residual(query, answer)]
    return sorted(kept, key=lambda answer: (answer.t, answer.end))


def emitted(query: Query, streams: Mapping[str, Sequence[Tuple]], watermark: int | None = None) -> list[Row]:
    """Every row the query emits; a delayed query only those before the watermark (None: the end of time)."""
    found = answers(query, streams)
    if query.aggregate:
        return _sample(query, query.aggregate, found, _last_tick(query, streams, found, watermark))
    horizon = watermark if query.is_delayed and watermark is not None else NEVER
    settled = [answer for answer in found if answer.t < horizon]
    return _appearances(query, settled) if query.distinct else [_select(query, answer) for answer in settled]


def bag(rows: Iterable[Iterable[Any]]) -> Counter[Hashable]:
    """Rows as a bag to compare with ==: values that Spark's GROUP BY would not tell apart are the same."""
    return Counter(canonical(tuple(row)) for row in rows)


@dataclass(frozen=True)
class _Candidate:
    """A tuple that passed its filters, when it ends, and its value in each attribute class of its input."""

    tuple_: Tuple
    end: int
    keys: dict[int, Hashable]


@dataclass(frozen=True)
class _Partial:
    """A combination of some inputs: the overlap of their lifetimes, and the value of each class so far."""

    t: int
    end: int
    keys: dict[int, Hashable]
    members: dict[str, Tuple]


def _extend(partial: list[_Partial], alias: str, candidates: list[_Candidate]) -> list[_Partial]:
    """Each partial combination with each tuple that agrees on their common classes and overlaps in time."""
    if not partial or not candidates:
        return []
    common = partial[0].keys.keys() & candidates[0].keys.keys()
    agreeing: dict[Hashable, list[_Candidate]] = {}
    for one in candidates:
        agreeing.setdefault(tuple(one.keys[cls] for cls in common), []).append(one)
    longer = []
    for part in partial:
        for one in agreeing.get(tuple(part.keys[cls] for cls in common), ()):
            t, end = max(part.t, one.tuple_.ts), min(part.end, one.end)
            if t < end:
                longer.append(_Partial(t, end, part.keys | one.keys, part.members | {alias: one.tuple_}))
    return longer


def _connected_order(query: Query) -> list[Input]:
    """The inputs so that each shares a class with an earlier one: only a matter of speed."""
    order = [query.inputs[0]]
    while len(order) < len(query.inputs):
        taken = {item.alias for item in order}
        rest = [item for item in query.inputs if item.alias not in taken]
        near = [item for item in rest if taken.intersection(query.graph.neighbours(item.alias))]
        order.append((near or rest)[0])
    return order


def _candidates(query: Query, item: Input, tuples: Sequence[Tuple]) -> list[_Candidate]:
    """An input's tuples that may take part in answers. Windows count before filters; NULL equals nothing."""
    candidates = []
    for tuple_, end in _ends(item, tuples):
        rows = {item.alias: _row(item.stream, tuple_)}
        if tuple_.ts < end and all(evaluate(condition, rows) is True for condition in item.filters):
            keys = _keys(query, item, rows)
            if None not in keys.values():
                candidates.append(_Candidate(tuple_, end, keys))
    return candidates


def _ends(item: Input, tuples: Sequence[Tuple]) -> list[tuple[Tuple, int]]:
    """Each tuple with the instant it leaves its window."""
    if not item.window.counts_rows:
        return [(tuple_, _end(item.window, tuple_.ts)) for tuple_ in tuples]
    ordered = sorted(tuples, key=lambda tuple_: _row_order(item.stream, tuple_))
    ends = []
    for number, tuple_ in enumerate(ordered):
        successor = _successor(item.window, number)
        ends.append((tuple_, ordered[successor].ts if successor < len(ordered) else NEVER))
    return ends


def _end(window: Window, ts: int) -> int:
    """The semantics of time windows, said a second time: what the engine takes from a window is checked."""
    match window:
        case RangeWindow():
            return min(NEVER, ts + window.size + 1)
        case TumbleWindow():
            return min(NEVER, (ts // window.size + 1) * window.size)
        case UnboundedWindow():
            return NEVER
    raise _unknown(window)


def _successor(window: Window, row: int) -> int:
    """The number of the row at whose event time this one ends."""
    match window:
        case RowsWindow():
            return row + window.size
        case TumbleRowsWindow():
            return (row // window.size + 1) * window.size
    raise _unknown(window)


def _unknown(window: Window) -> QueryError:
    return QueryError(
        f"the oracle has not been told when a tuple leaves {window.pretty()}: say so in oracle.py, "
        "independently of the window's own code"
    )


def _row_order(stream: Stream, tuple_: Tuple) -> tuple[Any, ...]:
    """The order of a stream's rows: ts, then values column by column, NULL first, nested ones aside."""
    scalars = [
        column.name
        for column in stream.columns
        if column.name != stream.event_time and not column.type.lower().startswith(("array", "struct", "map"))
    ]
    return (tuple_.ts, *(order_key(tuple_.values[name]) for name in scalars))


def _keys(query: Query, item: Input, rows: Rows) -> dict[int, Hashable]:
    keys = {}
    for index in query.graph.classes_of(item.alias):
        cls = query.graph.classes[index]
        attribute = cls.of(item.alias)
        assert attribute is not None
        value = evaluate(attribute.expr, rows)
        keys[index] = canonical(cast_value(value, cls.type) if cls.type else value)
    return keys


def _meets_residual(query: Query, answer: Answer) -> bool:
    rows = _rows(query, answer)
    return all(evaluate(condition, rows, answer.t) is True for condition in query.residual)


def _select(query: Query, answer: Answer) -> Row:
    rows = _rows(query, answer)
    return tuple(evaluate(output.expr, rows, answer.t) for output in query.select)


def _rows(query: Query, answer: Answer) -> Rows:
    inputs = zip(query.inputs, answer.combination, strict=True)
    return {item.alias: _row(item.stream, tuple_) for item, tuple_ in inputs}


def _row(stream: Stream, tuple_: Tuple) -> Mapping[str, Any]:
    return {**tuple_.values, stream.event_time: tuple_.ts} if stream.event_time else tuple_.values


def _appearances(query: Query, found: Sequence[Answer]) -> list[Row]:
    """DISTINCT: a value each time it goes from absent to present, given answers in the order they appear."""
    rows: list[Row] = []
    present_until: dict[Hashable, int] = {}
    for answer in found:
        row = _select(query, answer)
        value = canonical(row)
        if value not in present_until or present_until[value] < answer.t:
            rows.append(row)
        present_until[value] = max(answer.end, present_until.get(value, answer.end))
    return rows


def _sample(query: Query, aggregate: Aggregate, found: Sequence[Answer], last_tick: int) -> list[Row]:
    """Aggregates: the groups of the answers valid at each tick; a tick without answers says nothing."""
    rows: list[Row] = []
    for tick in _ticks(aggregate.emit_every_us, found, last_tick):
        groups: dict[Hashable, list[Rows]] = {}
        for answer in found:
            if answer.t <= tick < answer.end:
                member = _rows(query, answer)
                value = canonical([evaluate(expr, member, tick) for expr in aggregate.group_by])
                groups.setdefault(value, []).append(member)
        sampled = [
            tuple(evaluate_group(output.expr, group, tick) for output in query.select)
            for group in groups.values()
            if aggregate.having is None or evaluate_group(aggregate.having, group, tick) is True
        ]
        rows += {canonical(row): row for row in sampled}.values() if query.distinct else sampled
    return rows


def _ticks(every_us: int, found: Sequence[Answer], last_tick: int) -> list[int]:
    """The ticks, up to the last, at which some answer is valid."""
    ticks: set[int] = set()
    for answer in found:
        ticks.update(range(_tick_from(answer.t, every_us), min(answer.end, last_tick + 1), every_us))
    return sorted(ticks)


def _last_tick(
    query: Query, streams: Mapping[str, Sequence[Tuple]], found: Sequence[Answer], watermark: int | None
) -> int:
    """The last tick to sample: before the watermark, or, at the end of time, when all has happened.

    An answer under a ROWS window may be valid for ever, so the end of time is the first tick at which every
    tuple has come and every answer that ends has ended.
    """
    assert query.aggregate
    if watermark is not None:
        return watermark - 1
    events = [tuple_.ts for stream in query.streams for tuple_ in streams.get(stream.name, ())]
    events += [answer.end for answer in found if answer.end != NEVER]
    return _tick_from(max(events, default=BEGINNING), query.aggregate.emit_every_us)


def _tick_from(instant: int, every_us: int) -> int:
    """The first tick at or after an instant."""
    return -(-instant // every_us) * every_us
