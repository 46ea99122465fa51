"""Results of shared joins: verified, with their columns, on the way to later levels and to queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import same_values
from watersmeet.kernel.columns.row_bytes import stretches, value_bytes
from watersmeet.kernel.join.combinations import Partials, widest_of
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS, TS
from watersmeet.kernel.multiquery.level import SharedLevel, Use, behind_column
from watersmeet.kernel.multiquery.live_values import LiveValues
from watersmeet.kernel.multiquery.paths import ColumnOf, Path
from watersmeet.kernel.multiquery.predicate_index import PredicateIndex, Results
from watersmeet.kernel.multiquery.relation_store import RelationStore
from watersmeet.kernel.multiquery.rows import QUERY, STANDS, SharedCounts, SharedRows
from watersmeet.kernel.tuning import Tuning
from watersmeet.query import ANSWER_TIME
from watersmeet.query.arrow_types import TIMESTAMP
from watersmeet.query.shared_dataflow import BEHIND, END, SINCE

_FACTS = 12  # bytes of an answer beside its columns: its query and its time

Stores = Mapping[str, RelationStore]
Weights = npt.NDArray[np.float64]
SharedPartials = Partials[tuple[str, int]]  # hashes by member and class


class FoundResults:
    """Complete results that have not left yet, by join: what is few leaves together."""

    def __init__(self, tuning: Tuning) -> None:
        self.parts: dict[str, list[tuple[SharedPartials, Weights | None]]] = {}  # and what each stands for
        self._rows = 0
        self._nbytes = 0
        self._tuning = tuning

    def add(self, join: str, results: SharedPartials, nbytes: int, stands: Weights | None = None) -> None:
        """Takes results of which the columns take so many bytes at most."""
        if len(results.max_ts):
            self.parts.setdefault(join, []).append((results, stands))
            self._rows += len(results.max_ts)
            self._nbytes += nbytes

    @property
    def block_bytes(self) -> int:
        """What a block of results may take: it comes on top of those that are here."""
        return self._tuning.block_bytes // 2

    @property
    def is_full(self) -> bool:
        """Whether it is time to let them out."""
        return self._rows > self._tuning.held_results or self._nbytes >= self.block_bytes


def verified(stores: Stores, path: Path, partials: SharedPartials) -> SharedPartials:
    """The complete results whose columns are truly equal."""
    keep = np.ones(len(partials.max_ts), np.bool_)
    for left, right in path.equal:
        a, b = (_values(stores, column, partials) for column in (left, right))
        if pa.types.is_null(a.type) or pa.types.is_null(b.type):
            keep[:] = False
        elif a.type != b.type:
            raise DataError(f"{left[1]} is {a.type}, {right[1]} is {b.type}: they cannot be compared")
        else:
            keep &= same_values(a, b) & np.asarray(a.is_valid())
    return partials.where(keep)


def _values(stores: Stores, column: ColumnOf, partials: SharedPartials) -> pa.Array:
    member, name = column
    return stores[member].take([name], partials.rows[member])[0]


class _Block:
    """Results of one join, and the columns that have been taken for them."""

    def __init__(
        self, use: Use, stores: Stores, found: Sequence[tuple[SharedPartials, Weights | None]]
    ) -> None:
        self.use = use
        parts = [part for part, _ in found]
        self.stands: Weights | None = None
        if any(stands is not None for _, stands in found):
            each = [np.ones(len(part.max_ts)) if stands is None else stands for part, stands in found]
            self.stands = np.concatenate(each)
        self.ts: Longs = _concat([part.max_ts for part in parts])
        self.ends: Longs = _concat([part.min_end for part in parts])
        self.rows = {
            member: _concat([part.rows[member] for part in parts]) for member in use.members.relations
        }
        self.columns: dict[ColumnOf, pa.Array] = {}
        self._stores = stores

    def bring(self, wanted: Iterable[ColumnOf]) -> None:
        """Takes columns that are not there yet, each member's at once."""
        missing: dict[str, list[str]] = {}
        for member, column in dict.fromkeys(wanted):
            if (member, column) not in self.columns:
                missing.setdefault(member, []).append(column)
        for member, columns in missing.items():
            values = self._stores[member].take(columns, self.rows[member])
            self.columns |= {(member, name): one for name, one in zip(columns, values, strict=True)}

    def column(self, qualified: str) -> pa.Array:
        column = self.use.members.column_of(qualified)
        if column not in self.columns:
            self.bring([column])
        return self.columns[column]

    def stretches(self, columns: Sequence[str], rows: Longs, nbytes: int) -> Iterator[slice]:
        """Stretches of these results, which may repeat, by the bytes that their columns take."""

        def row_bytes() -> Longs:
            taken = np.full(len(rows), _FACTS)
            for name in dict.fromkeys(columns):
                known = value_bytes(self.column(name))
                taken += known if isinstance(known, int) else known[rows]
            return taken

        return stretches(len(rows), nbytes, widest_of(self._stores, self.use.taken), row_bytes)

    @property
    def since(self) -> Longs:
        sinces = [np.asarray(self.columns[member, SINCE]) for member in self.rows]
        return sinces[0] if len(sinces) == 1 else np.minimum.reduce(sinces)

    def behind(self) -> dict[str, Longs]:
        """What the tuples of a slot are behind, for the slots where they are behind anything."""
        masks = {}
        for slot, column in self.use.behind.items():
            if column in self.columns:
                bits = np.asarray(self.columns[column].cast(pa.int64()).fill_null(0))
                if bits.any():
                    masks[slot] = bits
        return masks


def _bring_needed(blocks: Sequence[_Block], stores: Stores) -> None:
    """Brings what every block needs of its members: of each store at once, for many blocks are small."""
    users: dict[str, list[_Block]] = {}
    for block in blocks:
        for member in block.rows:
            users.setdefault(member, []).append(block)
    for member, some in users.items():
        store = stores[member]
        needed = dict.fromkeys(name for block in some for name in block.use.needed[member])
        names = [SINCE, *(name for name in needed if not name.endswith(BEHIND) or name in store.columns)]
        values = store.take(names, _concat([block.rows[member] for block in some]))
        start = 0
        for block in some:
            for name, one in zip(names, values, strict=True):
                block.columns[member, name] = one.slice(start, len(block.ts))
            start += len(block.ts)


def emit(
    plan: SharedLevel,
    stores: Stores,
    found: Mapping[str, Sequence[tuple[SharedPartials, Weights | None]]],
    counts: SharedCounts,
    live: LiveValues,
    nbytes: int,
) -> Iterator[SharedRows]:
    """What becomes of joins' results: rows of later relations, answers of the queries that end here.

    An answer goes to many queries maybe, so answers leave in tables of at most so many bytes.
    """
    blocks = [_Block(plan.uses[join], stores, parts) for join, parts in found.items()]
    _bring_needed(blocks, stores)
    for block in blocks:
        counts.results += len(block.ts)
        since, behind = block.since, block.behind()
        if block.use.later:
            facts = {TS: pa.array(block.ts), END: pa.array(block.ends), SINCE: pa.array(since)}
            facts |= {behind_column(slot): pa.array(masks) for slot, masks in behind.items()}
            if block.stands is not None:
                facts[STANDS] = pa.array(block.stands, pa.float32())
            going = _going(plan, block, counts, live)
            for name, columns_of in block.use.later.items():
                columns = [block.columns[one] for one in columns_of.values()]
                table = pa.Table.from_arrays([*facts.values(), *columns], [*facts, *columns_of])
                if name in going:
                    table = table.take(going[name])
                if table.num_rows:
                    yield SharedRows(name, table)
        results = Results(len(since), since, list(behind.values()), block.column)
        for table_ in block.use.tables:
            for rows, tails in table_.pairs(results):
                for part in block.stretches(table_.columns, rows, nbytes):
                    answers = _answers(table_, block, rows[part], tails[part], counts)
                    yield SharedRows(table_.template, answers)


def _going(plan: SharedLevel, block: _Block, counts: SharedCounts, live: LiveValues) -> dict[str, pa.Array]:
    """Where results go one of several ways: those that go each."""
    use = block.use
    if not use.ways:
        return {}
    routes = [block.columns[column] for column in use.routes]
    chosen = live.choose(use.ways, routes, plan.expected)
    going = {way.relation: np.flatnonzero(chosen == number) for number, way in enumerate(use.ways)}
    for name, rows in going.items():
        counts.went[name] = counts.went.get(name, 0) + len(rows)
    return {name: pa.array(rows) for name, rows in going.items()}


def _concat(parts: Sequence[Longs]) -> Longs:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _answers(
    table: PredicateIndex, block: _Block, rows: Longs, tails: Longs, counts: SharedCounts
) -> pa.Table:
    numbers = table.numbers[tails]
    is_held = table.template.hold is not None
    counts.found += len(rows)
    if block.stands is not None:
        counts.missed += float((block.stands[rows] - 1).sum())
    if not is_held:  # else they count once they are let out
        counts.count_answers(numbers)
    named = table.named
    all_ = len(rows) == len(block.ts) and bool((rows == np.arange(len(rows))).all())
    chosen = None if all_ else pa.array(rows)
    times = pa.array(block.ts[rows])
    block.bring(block.use.members.column_of(column) for _, column in named if column != ANSWER_TIME)
    arrays = [
        times.cast(TIMESTAMP) if column == ANSWER_TIME else _taken(block.column(column), chosen)
        for _, column in named
    ]
    names = [QUERY, *(name for name, _ in named), ANSWER_TS]
    answers = pa.Table.from_arrays([pa.array(numbers), *arrays, times], names=names)
    if not is_held and not table.template.with_end:
        return answers
    return answers.append_column(ANSWER_END, pa.array(block.ends[rows]))


def _taken(column: pa.Array, chosen: pa.Array | None) -> pa.Array:
    return column if chosen is None else column.take(chosen)
