"""Queries as RJoin rewrites them (RJoin section 3, "Remembering events").

A query waits for one tuple of each input. A tuple that fits replaces its input's attributes by values, and
the WHERE clause is simplified: an attribute class that the tuple gives a value turns every other member into
a selection `relation.attribute = value`, written or logically implied (section 6, case c); a class without
members left disappears. With no input left to wait for, the query is an answer.

    select R.B, S.B from R, S, P where R.A = S.A and S.B = P.B          a tuple (3, 5) of R gives
    select 5, S.B from S, P where 3 = S.A and S.B = P.B

Where we differ: the paper's windows carry one number, `start`; we carry the combination's lifetime
[t, end) as query/window.py defines it, so that answers are exactly the oracle's for any mixture of windows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.oracle.evaluate import evaluate
from watersmeet.query import BEGINNING, NEVER, AttributeClass, Expr, Query, Stream
from watersmeet.query.values import canonical

Row = tuple[Any, ...]


class KeyTable(dict[Hashable, str]):
    """The value-level keys of one attribute, made once each: value -> `R+A+value`."""

    __slots__ = ("attribute_key",)

    def __init__(self, attribute_key: str) -> None:
        super().__init__()
        self.attribute_key = attribute_key  # `R+A`

    def __missing__(self, value: Hashable) -> str:
        key = self[value] = f"{self.attribute_key}+{value!r}"
        return key


class KeyBook:
    """The keys of all attributes, shared so that equal keys are one object."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], KeyTable] = {}

    def of(self, stream: str, column: str) -> KeyTable:
        table = self._tables.get((stream, column))
        if table is None:
            table = self._tables[stream, column] = KeyTable(f"{stream}+{column}")
        return table


class Published:
    """A tuple in the network: its publication time and its values, as given and as they compare."""

    __slots__ = ("keys", "number", "stream", "ts", "values")

    def __init__(self, number: int, stream: Stream, ts: int, values: Row) -> None:
        self.number = number
        self.stream = stream
        self.ts = ts  # pubT
        self.values = values
        self.keys = tuple([value if type(value) is int else canonical(value) for value in values])

    def named(self) -> Mapping[str, Any]:
        return {column.name: value for column, value in zip(self.stream.columns, self.values, strict=True)}

    def pretty(self) -> str:
        return f"{self.stream.name}({', '.join(str(value) for value in self.values)})"


class Step:
    """One rewriting, prepared: the effect of a tuple of one input on a query that awaits some inputs."""

    __slots__ = ("awaited", "binds", "checks", "columns", "gone", "input", "pairs", "triples")

    def __init__(self, query: JoinQuery, awaited: int, input_: int) -> None:
        self.input = input_
        self.awaited = awaited & ~(1 << input_)
        mine = query.class_columns[input_]
        others = [cls for cls, members in enumerate(query.members) if members & ~awaited]
        self.checks = tuple((cls, column) for cls, column in mine if cls in others)
        self.binds = tuple((cls, column) for cls, column in mine if cls not in others)
        bound = {*others, *(cls for cls, _ in mine)}
        self.gone = tuple(cls for cls in bound if not query.members[cls] & self.awaited)
        self.triples, self.pairs = query.candidates(self.awaited, bound)
        self.columns = query.needed_columns(input_, others)


class JoinQuery:
    """A query prepared for rewriting; `since_us` and `until_us` bound the tuples it may use."""

    def __init__(
        self, number: int, query: Query, *, owner: int, keys: KeyBook, since_us: int, until_us: int = NEVER
    ) -> None:
        check_supported(query)
        self.number = number
        self.query = query
        self.owner = owner
        self.since_us = since_us  # insT, or the beginning for a one-time query
        self.until_us = until_us
        self.streams = tuple(item.stream.name for item in query.inputs)
        self.windows = tuple(item.window for item in query.inputs)
        self.timed = tuple(window.duration_us is not None for window in self.windows)
        self.endless = until_us == NEVER and not any(self.timed)  # nothing of it ever expires
        self.distinct = query.distinct
        self.filters = tuple(item.filters for item in query.inputs)
        self.counted = tuple(n for n, window in enumerate(self.windows) if window.counts_rows)
        number_of = {item.alias: n for n, item in enumerate(query.inputs)}
        self._where = [
            [(number_of[a.alias], _column(query, a.alias, a.expr)) for a in cls.attributes]
            for cls in query.graph.classes
        ]
        self._tables = [
            [(n, keys.of(self.streams[n], _name(query, n, column))) for n, column in cls]
            for cls in self._where
        ]
        self.members = tuple(sum(1 << n for n, _ in cls) for cls in self._where)
        self.class_columns = tuple(
            tuple((cls, column) for cls, found in enumerate(self._where) for m, column in found if m == n)
            for n in range(len(query.inputs))
        )
        self._steps: dict[int, Step] = {}
        self._outputs = [_output(query, output.expr) for output in query.select]
        answered = [*query.residual, *(output.expr for output in query.select)]
        self.reads_time = any(expr.uses_answer_time for expr in answered)
        self.everything = (1 << len(query.inputs)) - 1

    def step(self, awaited: int, input_: int) -> Step:
        """The rewriting of this query, waiting for some inputs, by a tuple of one of them."""
        code = awaited << 5 | input_
        step = self._steps.get(code)
        if step is None:
            step = self._steps[code] = Step(self, awaited, input_)
        return step

    def candidates(
        self, awaited: int, bound: set[int]
    ) -> tuple[tuple[tuple[int, KeyTable, int], ...], tuple[tuple[int, KeyTable], ...]]:
        """Where a query may be indexed: triples (input, key table, class) and pairs, in WHERE order."""
        triples: list[tuple[int, KeyTable, int]] = []
        pairs: dict[tuple[int, str], tuple[int, KeyTable]] = {}
        for cls, tables in enumerate(self._tables):
            for input_, table in tables:
                if awaited >> input_ & 1:
                    if cls in bound:
                        triples.append((input_, table, cls))
                    else:
                        pairs[input_, table.attribute_key] = (input_, table)
        return tuple(triples), tuple(pairs.values())

    def needed_columns(self, input_: int, bound: list[int]) -> tuple[int, ...]:
        """The attributes of an input that SELECT, filters or a WHERE clause with these classes bound read."""
        alias, stream = self.query.inputs[input_].alias, self.query.inputs[input_].stream
        names = set(self.query.payload(alias))
        names |= {ref.column for condition in self.filters[input_] for ref in condition.columns}
        columns = {n for n, column in enumerate(stream.columns) if column.name in names}
        return tuple(
            sorted(columns | {column for cls, column in self.class_columns[input_] if cls not in bound})
        )

    def passes(self, input_: int, tuple_: Published) -> bool:
        """Whether a tuple meets an input's own conditions."""
        rows = {self.query.inputs[input_].alias: tuple_.named()}
        return all(evaluate(condition, rows) is True for condition in self.filters[input_])

    def answer(self, members: list[Published], t: int) -> Row | None:
        """The row of a complete combination; None if a residual condition refuses it."""
        rows: dict[str, Mapping[str, Any]] = {}
        if self.query.residual or any(isinstance(output, Expr) for output in self._outputs):
            rows = {item.alias: m.named() for item, m in zip(self.query.inputs, members, strict=True)}
        if not all(evaluate(condition, rows, t) is True for condition in self.query.residual):
            return None
        return tuple(
            evaluate(output, rows, t) if isinstance(output, Expr) else members[output[0]].values[output[1]]
            for output in self._outputs
        )


class Rewriting:
    """A query being rewritten: the tuples it has met, the inputs it awaits, the one it is indexed for."""

    __slots__ = ("awaited", "end", "parent", "query", "seen", "step", "t", "tuple_", "values")

    def __init__(
        self,
        query: JoinQuery,
        *,
        parent: Rewriting | None,
        tuple_: Published | None,
        awaited: int,
        values: tuple[Hashable, ...],
        t: int,
        end: int,
    ) -> None:
        self.query = query
        self.parent = parent
        self.tuple_ = tuple_
        self.awaited = awaited
        self.values = values  # of each attribute class, where known and still needed
        self.t = t
        self.end = end
        self.step: Step | None = None  # set where it is indexed
        self.seen: dict[Row, list[tuple[int, int]]] | None = None  # DISTINCT: what has triggered it

    def copy(self) -> Rewriting:
        """The same query for another node to keep."""
        twin = Rewriting(
            self.query,
            parent=self.parent,
            tuple_=self.tuple_,
            awaited=self.awaited,
            values=self.values,
            t=self.t,
            end=self.end,
        )
        twin.step = self.step
        return twin

    def members(self) -> list[Published]:
        """The tuples met, in FROM order; only for a complete query."""
        met: dict[int, Published] = {}
        here: Rewriting | None = self
        while here is not None and here.parent is not None:
            assert here.tuple_ is not None
            assert here.parent.step is not None
            met[here.parent.step.input] = here.tuple_
            here = here.parent
        return [met[n] for n in range(len(met))]

    def pretty(self) -> str:
        """Which tuples it has met and which relations it still awaits."""
        met, here = [], self
        while here.parent is not None:
            assert here.tuple_ is not None
            met.append(here.tuple_.pretty())
            here = here.parent
        names = [name for n, name in enumerate(self.query.streams) if self.awaited >> n & 1]
        given = f" given {', '.join(reversed(met))}" if met else ""
        return f"q{self.query.number} awaiting {', '.join(names)}{given}"


def start(query: JoinQuery) -> Rewriting:
    """An input query: nothing met yet."""
    unknown: tuple[Hashable, ...] = (None,) * len(query.members)
    return Rewriting(
        query, parent=None, tuple_=None, awaited=query.everything, values=unknown, t=BEGINNING, end=NEVER
    )


def rewrite(query: Rewriting, tuple_: Published) -> Rewriting | None:
    """The query that is left once this tuple has come; None if the tuple does not trigger it."""
    model, step = query.query, query.step
    assert step is not None
    ts, keys, values = tuple_.ts, tuple_.keys, query.values
    if not model.since_us <= ts <= model.until_us:
        return None
    for cls, column in step.checks:
        if values[cls] != keys[column]:
            return None
    input_, end = step.input, query.end
    if model.timed[input_]:
        own_end = model.windows[input_].end_us(ts)
        end = own_end if own_end < end else end
    t = ts if ts > query.t else query.t
    if t >= end or (model.filters[input_] and not model.passes(input_, tuple_)):
        return None
    if step.binds or step.gone:
        known = list(values)
        for cls, column in step.binds:
            if keys[column] is None:
                return None
            known[cls] = keys[column]
        for cls in step.gone:
            known[cls] = None
        values = tuple(known)
    return Rewriting(model, parent=query, tuple_=tuple_, awaited=step.awaited, values=values, t=t, end=end)


def is_new(query: Rewriting, rewritten: Rewriting) -> bool:
    """DISTINCT (section 4): whether a rewriting can still bring answer values that an earlier one cannot.

    The paper lets a projection trigger a query once. Under windows a later tuple outlives an earlier one, so
    a projection is refused only if the earlier combination's lifetime covers the new one's, and begins with
    it where the query reads the answer's time.
    """
    step, tuple_, t = query.step, rewritten.tuple_, rewritten.t
    assert step is not None
    assert tuple_ is not None
    projection = tuple([tuple_.keys[column] for column in step.columns])
    if query.seen is None:
        query.seen = {}
    lifetimes = query.seen.setdefault(projection, [])
    earliest = t if query.query.reads_time else BEGINNING
    if any(earliest <= begin <= t and rewritten.end <= end for begin, end in lifetimes):
        return False
    lifetimes.append((t, rewritten.end))
    return True


def check_supported(query: Query) -> None:
    """Refuses what RJoin does not evaluate: it joins several relations by equal attributes."""
    if len(query.inputs) < 2:
        raise ConfigurationError("RJoin evaluates joins: the query reads one stream only")
    if query.tree:
        raise ConfigurationError("RJoin evaluates inner joins: write JOIN ... ON")
    if query.aggregate:
        raise ConfigurationError("RJoin evaluates joins without aggregates")
    if query.distinct and any(item.window.counts_rows for item in query.inputs):
        raise ConfigurationError("RJoin does not know when an answer ends under a ROWS window: drop DISTINCT")
    if not query.graph.is_connected:
        raise ConfigurationError("RJoin needs a connected join graph")
    for cls in query.graph.classes:
        _check_class(query, cls)


def _check_class(query: Query, cls: AttributeClass) -> None:
    types = set()
    for attribute in cls.attributes:
        column = _column(query, attribute.alias, attribute.expr)
        types.add(query.input(attribute.alias).stream.columns[column].type.lower())
    if len(types) > 1:
        raise ConfigurationError(
            f"RJoin finds equal values by equal keys: {cls.pretty()} compares {' with '.join(sorted(types))}"
        )


def _column(query: Query, alias: str, expr: Expr) -> int:
    if not expr.is_column:
        raise ConfigurationError(f"RJoin indexes tuples by their attributes, not by {expr.pretty()}")
    name = expr.columns[0].column
    columns = query.input(alias).stream.columns
    return next(n for n, column in enumerate(columns) if column.name.lower() == name.lower())


def _name(query: Query, input_: int, column: int) -> str:
    return query.inputs[input_].stream.columns[column].name


def _output(query: Query, expr: Expr) -> Expr | tuple[int, int]:
    """A bare column as (input, column) for speed; anything else as it is."""
    if not expr.is_column:
        return expr
    alias = expr.columns[0].alias
    input_ = next(n for n, item in enumerate(query.inputs) if item.alias == alias)
    return input_, _column(query, alias, expr)
