"""Which queries a join's results answer.

Thousands of queries may end at one join and differ only in constants. Tails of one template are a table of
constants, and a block of results meets the whole table at once: equalities through one lookup by hash, else
one range through the order of its constants; whatever else is asked is asked of the pairs that are left. So
the cost follows the answers, not the queries.

    template: a.x = ?, b.y > ?    tails (1, 5), (1, 9), (2, 0)    result (1, 7): the first two, then only one

Guarantee: a pair is returned exactly when every test holds (NULL never does), no tuple of the result is late
for the query, and all of them came since the query did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.tuning import DEFAULT_TUNING
from watersmeet.query import ANSWER_TIME
from watersmeet.query.shared_dataflow import QueryTail, TailTemplate, Test

Mask = npt.NDArray[np.bool_]
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True)
class Results:
    """A block of a join's results as tails see them; columns are brought when they are asked for."""

    rows: int
    since: Longs
    behind: Sequence[Longs]  # of each slot that has tuples which are behind some stream
    column: Callable[[str], pa.Array]


@dataclass(frozen=True)
class _Values:
    """A column that can be compared: numbers, or strings as bytes; NULL has any value and is not valid."""

    values: npt.NDArray[Any]
    valid: Mask | None

    def compare(self, op: str, places: Any, other: npt.NDArray[Any]) -> Mask:
        held = np.asarray(_COMPARE[op](self.values[places], other), np.bool_)
        return held if self.valid is None else held & self.valid[places]


class PredicateIndex:
    """The tails of one template."""

    def __init__(
        self,
        template: TailTemplate,
        tails: Sequence[QueryTail],
        bits: int,
        max_pairs: int = DEFAULT_TUNING.max_pairs,
    ) -> None:
        """`bits`: of the template's streams, as in the masks of what is behind."""
        self.template = template
        self.numbers = np.array([tail.number for tail in tails], np.int32)
        self._bits = bits
        self._max_pairs = max_pairs
        self._since: Longs = np.array([tail.since for tail in tails], np.int64)
        self._last_since = int(self._since.max())
        self._between = [test for test in template.tests if test.other is not None]
        constants = [place for place, test in enumerate(template.tests) if test.other is None]
        equal = [place for place in constants if template.tests[place].op == "="]
        ranges = [place for place in constants if template.tests[place].op in ("<", "<=", ">", ">=")]
        self._looked_up = equal or ranges[:1]
        self._left = [place for place in constants if place not in (self._looked_up if not equal else ())]
        self._is_range = bool(self._looked_up) and not equal
        self._constants = {place: _constants(tails, place) for place in constants}
        self._order: Longs = np.arange(len(tails))
        self._hashes: Hashes = np.empty(0, np.uint64)
        if self._is_range:
            self._order = np.argsort(self._constants[self._looked_up[0]], kind="stable")
        elif equal:
            hashes = combine_hashes([_hashes(self._constants[place]) for place in equal])
            self._order = np.argsort(hashes, kind="stable")
            self._hashes = hashes[self._order]

    @property
    def columns(self) -> list[str]:
        """What answers are made of, and what is tested."""
        template = self.template
        tested = [name for test in template.tests for name in (test.column, test.other) if name is not None]
        return [*tested, *(column for _, column in self.named if column != ANSWER_TIME)]

    @property
    def named(self) -> list[tuple[str, str]]:
        """The columns of answers: their names, and what is in them."""
        template = self.template
        if template.needs_spark:
            return [(name, name) for name in template.payload]
        return list(template.outputs or ())

    def pairs(self, results: Results) -> Iterator[tuple[Longs, Longs]]:
        """(places of results, places of tails) that go together, block by block."""
        rows = self._candidates(results)
        if not len(rows):
            return
        columns = {place: self._column(place, results) for place in self._constants}
        low, high = self._lookup(rows, columns)
        ends = np.cumsum(high - low)
        start = 0
        while start < len(rows):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + self._max_pairs, side="right")))
            part = slice(start, stop)
            repeats = high[part] - low[part]
            found = np.repeat(rows[part], repeats)
            firsts = np.repeat(low[part] - (ends[part] - repeats - before), repeats)
            tails = self._order[np.arange(len(found)) + firsts]
            keep = self._holds(found, tails, columns, results.since)
            yield (found, tails) if keep is None else (found[keep], tails[keep])
            start = stop

    def _candidates(self, results: Results) -> Longs:
        """The results that no tail refuses for what all tails have in common."""
        keep: Mask | None = None
        for masks in results.behind:
            in_time = (masks & self._bits) != self._bits
            keep = in_time if keep is None else keep & in_time
        for test in self._between:
            assert test.other is not None
            held = _compare_columns(results.column(test.column), test.op, results.column(test.other))
            keep = held if keep is None else keep & held
        return np.arange(results.rows) if keep is None else np.flatnonzero(keep)

    def _column(self, place: int, results: Results) -> _Values:
        """The column of a test, comparable with its constants."""
        name, constants = self.template.tests[place].column, self._constants[place]
        column = results.column(name)
        if pa.types.is_null(column.type):
            unknown = np.full(len(column), constants[0], constants.dtype)
            return _Values(unknown, np.zeros(len(column), np.bool_))
        values = _comparable(column)
        if values.values.dtype != constants.dtype:
            raise DataError(f"{name} is {column.type}: the constants it is compared with are not")
        return values

    def _lookup(self, rows: Longs, columns: dict[int, _Values]) -> tuple[Longs, Longs]:
        """For each result, the stretch of tails (in their order) that may hold."""
        count = len(self.numbers)
        if not self._looked_up:
            return np.zeros(len(rows), np.int64), np.full(len(rows), count)
        values = [columns[place].values[rows] for place in self._looked_up]
        if self._is_range:
            op = self.template.tests[self._looked_up[0]].op
            constants = self._constants[self._looked_up[0]][self._order]
            # For x > c and x <= c the stretch begins or ends with the first constant not below x.
            split = np.searchsorted(constants, values[0], side="left" if op in (">", "<=") else "right")
            begins = op in ("<", "<=")
            low, high = (split, np.full(len(rows), count)) if begins else (np.zeros_like(split), split)
            valid = columns[self._looked_up[0]].valid
            return low, high if valid is None else np.where(valid[rows], high, low)
        wanted = combine_hashes([_hashes(one) for one in values])
        return (
            np.searchsorted(self._hashes, wanted, side="left"),
            np.searchsorted(self._hashes, wanted, side="right"),
        )

    def _holds(self, rows: Longs, tails: Longs, columns: dict[int, _Values], since: Longs) -> Mask | None:
        """What is left to ask of each pair; None: nothing."""
        keep: Mask | None = None
        for place in self._left:
            constants = self._constants[place][tails]
            held = columns[place].compare(self.template.tests[place].op, rows, constants)
            keep = held if keep is None else keep & held
        if self._last_since > 0 and len(since) and self._last_since > int(since.min()):
            held = since[rows] >= self._since[tails]
            keep = held if keep is None else keep & held
        return keep


def tables_of(
    tails: Sequence[QueryTail], streams: Sequence[str], max_pairs: int = DEFAULT_TUNING.max_pairs
) -> list[PredicateIndex]:
    """The tails of a join, one table a template; `streams` gives the bits of the masks."""
    templates: dict[TailTemplate, list[QueryTail]] = {}
    for tail in tails:
        templates.setdefault(tail.template, []).append(tail)
    return [
        PredicateIndex(template, same, stream_bits(streams, template.streams), max_pairs)
        for template, same in templates.items()
    ]


def stream_bits(streams: Sequence[str], some: Sequence[str]) -> int:
    """The bits of some streams of a shared dataflow."""
    return sum(1 << streams.index(name) for name in set(some))


def _constants(tails: Sequence[QueryTail], place: int) -> npt.NDArray[Any]:
    values = [_test_constant(tail.tests[place]) for tail in tails]
    texts = [value for value in values if isinstance(value, bytes)]
    if texts:
        return _objects(texts)
    return np.array(values, np.int64)


def _test_constant(test: Test) -> int | bytes:
    if test.constant is None:
        raise DataError(f"the test of {test.column} compares with nothing")
    return test.constant.encode() if isinstance(test.constant, str) else int(test.constant)


def _comparable(column: pa.Array) -> _Values:
    """A column as the constants are: int64 (times in microseconds, dates in days), or bytes of a string."""
    valid = np.asarray(column.is_valid()) if column.null_count else None
    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return _Values(_objects(column.cast(pa.large_binary()).fill_null(b"").to_pylist()), valid)
    if pa.types.is_null(type_):
        return _Values(np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_))
    if pa.types.is_timestamp(type_):
        column = column.cast(pa.timestamp("us", type_.tz)).cast(pa.int64())
    elif pa.types.is_date32(type_):
        column = column.cast(pa.int32())
    elif pa.types.is_boolean(type_):
        column = column.cast(pa.int8())
    elif not pa.types.is_integer(type_):
        raise DataError(f"a column of type {type_} cannot be tested in a shared dataflow")
    return _Values(np.asarray(column.cast(pa.int64()).fill_null(0)), valid)


def _compare_columns(left: pa.Array, op: str, right: pa.Array) -> Mask:
    a, b = _comparable(left), _comparable(right)
    if a.values.dtype != b.values.dtype and left.null_count < len(left) and right.null_count < len(right):
        raise DataError(f"columns of types {left.type} and {right.type} cannot be compared")
    if a.values.dtype != b.values.dtype:
        return np.zeros(len(left), np.bool_)
    held = a.compare(op, np.s_[:], b.values)
    return held if b.valid is None else held & b.valid


def _hashes(values: npt.NDArray[Any]) -> Hashes:
    return hash_column(pa.array(values, pa.large_binary()) if values.dtype == object else pa.array(values))


def _objects(values: Sequence[bytes]) -> npt.NDArray[Any]:
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects
