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
from dataclasses import dataclass, replace
from typing import Any

from watersmeet.oracle.arrivals import (
    Arrivals,
    Clock,
    MicroBatch,
    Tuple,
    accept,
    take_in,
    watermark,
)
from watersmeet.oracle.cast import cast_value
from watersmeet.oracle.evaluate import Rows, evaluate, evaluate_group
from watersmeet.oracle.lifetimes import ends_of
from watersmeet.oracle.outer import Combination, Joiner
from watersmeet.oracle.views import branch_rows
from watersmeet.query import (
    ANSWER_TIME,
    BEGINNING,
    NEVER,
    Aggregate,
    Block,
    Expr,
    Input,
    Query,
    Stream,
    Tree,
)
from watersmeet.query.values import canonical, instant_of

__all__ = [
    "Answer",
    "Arrivals",
    "Clock",
    "MicroBatch",
    "Row",
    "Run",
    "Tuple",
    "accept",
    "answer_tuples",
    "answers",
    "bag",
    "emitted",
    "is_instant",
    "run",
    "take_in",
    "watermark",
]

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """A combination, in FROM order, valid during [t, end); None where an outer join found no tuple."""

    t: int
    end: int
    combination: tuple[Tuple | None, ...]
    certain_at: int = BEGINNING  # the watermark from which nothing can change it; used with outer joins


@dataclass(frozen=True)
class Run:
    """What a query emitted over a sequence of micro-batches, and how many tuples of each stream were late."""

    rows: list[Row]
    late: dict[str, int]
    ahead: dict[str, int]  # further ahead of their batch than the stream allows


def run(query: Query, batches: Iterable[MicroBatch], flush: bool = False, clock: Clock | None = None) -> Run:
    """Everything emitted once all batches are in; with `flush`, the end of the input is the end of time.

    A stream of answers has those of its query over the same batches, unless these bring tuples of it. How far
    it has come with each batch the clock says; as long as it does not, nothing is late beside it.
    """
    arrived = list(batches)
    came = take_in(query, arrived, clock)
    tuples = dict(came.accepted)
    for stream in query.streams:
        if stream.answers is not None and not any(stream.name in batch for batch in arrived):
            tuples[stream.name] = answer_tuples(stream, run(stream.answers, arrived, flush, clock).rows)
    return Run(emitted(query, tuples, None if flush else came.watermark), came.late, came.ahead)


def answer_tuples(stream: Stream, rows: Iterable[Row]) -> list[Tuple]:
    """The answers of a query as tuples of the stream that they are."""
    assert stream.answers is not None
    names = [column.name for column in stream.columns]
    instants = [is_instant(stream.answers, output.expr) for output in stream.answers.select]
    found = []
    for row in rows:
        values: dict[str, Any] = {
            name: instant_of(value) if is_time and value is not None and name != stream.event_time else value
            for name, value, is_time in zip(names, row, instants, strict=True)
        }
        found.append(Tuple(values.pop(str(stream.event_time)), values))
    return found


def is_instant(query: Query, expr: Expr) -> bool:
    """Whether an output is t or the event time of an input, which rows have in whole microseconds."""
    if not expr.is_column:
        return expr.sql == ANSWER_TIME
    ref = expr.columns[0]
    return query.input(ref.alias).stream.event_time == ref.column


def answers(query: Query, streams: Mapping[str, Sequence[Tuple]]) -> list[Answer]:
    """Every answer over the tuples of each stream, by the time it appears."""
    found = _join_inner(query, streams) if query.tree is None else _join_tree(query, query.tree, streams)
    kept = [answer for answer in found if _meets_residual(query, answer)]
    return sorted(kept, key=lambda answer: (answer.t, answer.end))


def _join_inner(query: Query, streams: Mapping[str, Sequence[Tuple]]) -> list[Answer]:
    """Every combination that meets the equalities and filters."""
    partial = [_Partial(BEGINNING, NEVER, {}, {})]
    for item in _connected_order(query):
        partial = _extend(partial, item.alias, _candidates(query, item, _tuples(item.stream, streams)))
    return [
        Answer(part.t, part.end, tuple(part.members[item.alias] for item in query.inputs)) for part in partial
    ]


def _join_tree(query: Query, tree: Tree, streams: Mapping[str, Sequence[Tuple]]) -> list[Answer]:
    """Every combination that a tree of outer, semi and anti joins answers. Each of its blocks is a query."""

    def join_block(block: Block) -> list[Combination]:
        inputs = tuple(replace(query.input(alias), is_derived=False) for alias in block.aliases)
        inner = replace(query, inputs=inputs, graph=block.graph, residual=block.residual, tree=None)
        return [
            Combination(
                answer.t,
                answer.end,
                answer.t + 1 if query.joins_delayed else BEGINNING,
                dict(zip(block.aliases, answer.combination, strict=True)),
            )
            for answer in answers(inner, streams)
        ]

    joiner = Joiner(
        join_block, lambda alias, member: _row(query.input(alias).stream, member), query.joins_delayed
    )
    return [
        Answer(one.t, one.end, tuple(one.members[alias] for alias in query.graph.aliases), one.certain_at)
        for one in joiner.join(tree)
    ]


def emitted(query: Query, streams: Mapping[str, Sequence[Tuple]], watermark: int | None = None) -> list[Row]:
    """Every row the query emits; a delayed query only those before the watermark (None: the end of time)."""
    found = answers(query, streams)
    if query.aggregate:
        return _sample(query, query.aggregate, found, _last_tick(query, streams, found, watermark))
    if query.tree is not None and watermark is not None:
        found = [answer for answer in found if answer.certain_at <= watermark]
    horizon = watermark if query.is_delayed and watermark is not None else NEVER
    settled = [answer for answer in found if answer.t < horizon]
    return _appearances(query, settled) if query.distinct else [_select(query, answer) for answer in settled]


def bag(rows: Iterable[Iterable[Any]]) -> Counter[Hashable]:
    """Rows as a bag to compare with ==: values that Spark's GROUP BY would not tell apart are the same."""
    return Counter(canonical(tuple(row)) for row in rows)


def _tuples(stream: Stream, streams: Mapping[str, Sequence[Tuple]]) -> Sequence[Tuple]:
    """The tuples of a stream; those of a view are made of the tuples of its streams, and keep their times."""
    if not stream.view:
        return streams.get(stream.name, ())
    made = [
        (tuple_.ts, row)
        for branch in stream.view
        for tuple_ in streams.get(branch.stream.name, ())
        for row in branch_rows(branch, _row(branch.stream, tuple_))
    ]
    return [Tuple(ts, {name: row[name] for name in row if name != stream.event_time}) for ts, row in made]


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
    for tuple_, end in ends_of(item, tuples):
        rows = {item.alias: _row(item.stream, tuple_)}
        if tuple_.ts < end and all(evaluate(condition, rows) is True for condition in item.filters):
            keys = _keys(query, item, rows)
            if None not in keys.values():
                candidates.append(_Candidate(tuple_, end, keys))
    return candidates


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


def _row(stream: Stream, tuple_: Tuple | None) -> Mapping[str, Any]:
    if tuple_ is None:
        return {column.name: None for column in stream.columns}
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
    for tick in _ticks(aggregate, found, last_tick):
        instant = tick - aggregate.before_us
        groups: dict[Hashable, list[Rows]] = {}
        for answer in found:
            if answer.t <= instant < answer.end:
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


def _ticks(aggregate: Aggregate, found: Sequence[Answer], last_tick: int) -> list[int]:
    """The ticks, up to the last, at which some answer is valid, or just before which it is."""
    ticks: set[int] = set()
    every_us, before_us = aggregate.emit_every_us, aggregate.before_us
    for answer in found:
        first = _tick_from(answer.t + before_us, every_us)
        ticks.update(range(first, min(answer.end + before_us, last_tick + 1), every_us))
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
        return watermark - 1 + query.aggregate.before_us
    events = [tuple_.ts for stream in query.streams for tuple_ in streams.get(stream.name, ())]
    events += [answer.end for answer in found if answer.end != NEVER]
    return _tick_from(max(events, default=BEGINNING), query.aggregate.emit_every_us)


def _tick_from(instant: int, every_us: int) -> int:
    """The first tick at or after an instant."""
    return -(-instant // every_us) * every_us
