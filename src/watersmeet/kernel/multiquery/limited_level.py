"""One level of one bucket of a shared dataflow within a limit of memory, and what that costs.

The buckets of one number, one at each level, have a part of the limit in common. They step one after the
other within a micro-batch, so a level takes of it what the levels before it have left, less what it has to
leave for those after it. Memory is shared as between the inputs of a join: equal bytes for each relation of
all levels, and for each table of held answers or of distinct values; what one does not need goes to the
others. What a relation of a later level needs is foreseen from the rows that pass through here, or leave from
here for other buckets, which are about as many as those that others send to ours. Where results are made
only later, nothing is foreseen, and their relation is left its equal part.

    100 bytes, a and b at level 1 need 60 each; c and (a b) at level 2 need 10 and 20     70 for level 1

Held answers take at most half of a level's room. A value of DISTINCT cannot be shed, or it would be let out
again: so the values of a query have no more than an equal part, and new ones are left out beyond that.

How complete the answers are follows from what results stand for. A result that is found with partners of
which only a share is still there stands for one over that share; one made of results that stand for more than
themselves, for the product; and it takes that along to the next level. The share is counted, per relation and
by the ends of lifetimes (`shedding.end_ledger`); under `least`, it is the inclusion probability of the very
rows (`state.weighted_sample`). Answers stand for A in all where B are found: A - B are missed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.columns.hashing import Hashes, combine_hashes, hash_column
from watersmeet.kernel.layout import TS
from watersmeet.kernel.multiquery.held_tails import HeldTails
from watersmeet.kernel.multiquery.level import SharedLevel
from watersmeet.kernel.multiquery.relation_store import RelationStore, concat_unlike
from watersmeet.kernel.multiquery.results import SharedPartials
from watersmeet.kernel.multiquery.rows import STANDS, SharedCounts
from watersmeet.kernel.shedding import thinning
from watersmeet.kernel.shedding.end_ledger import EndLedger
from watersmeet.kernel.shedding.limit import Shed, StateLimit
from watersmeet.kernel.shedding.policy import count_hashes, counted
from watersmeet.kernel.shedding.thinning import SHED_TO, Mask, Rows, as_random, in_order, rows_of
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunk import Chunk
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.state.result_expiry import order_by_end
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import BEGINNING, NEVER
from watersmeet.query.byte_size import split_evenly
from watersmeet.query.shared_dataflow import END, Relation, SharedDataflow

HELD_SHARE = 0.5  # held answers may take this much of a level's room
INDEX_BYTES = 32  # of a row, until rows of one's own tell

Floats = npt.NDArray[np.float64]
Stores = Mapping[str, RelationStore]


@dataclass(frozen=True)
class Seats:
    """Among whom a bucket's part of the limit is shared, as one level sees it."""

    all: int  # relations that are kept, and tables of answers and values, at all levels
    tables: int  # of these the tables here
    seen: Mapping[int, int]  # by later level, the relations whose rows pass through or leave from here
    unseen: int  # relations and tables of later levels of which nothing is known here

    @classmethod
    def of(cls, dataflow: SharedDataflow, level: int) -> Seats:
        """The seats of the queries of a dataflow."""
        made = {join.name: join.level for join in dataflow.joins}
        joined = {member for join in dataflow.joins if len(join.members) > 1 for member in join.members}
        kept = [relation for relation in dataflow.relations if relation.name in joined]
        later = [relation for relation in kept if relation.level > level]
        seen: dict[int, int] = {}
        for relation in later:
            if made.get(relation.source, 0) <= level:
                seen[relation.level] = seen.get(relation.level, 0) + 1
        tables: list[int] = []  # the level of each
        for template in {tail.template for tail in dataflow.tails if tail.hold is not None}:
            tables.append(made[template.join])
            if template.has_values:
                tables.append(made[template.join] + 1)
            if template.hold is not None and template.hold.repeats:
                tables.append(made[template.join])
        unseen = len(later) - sum(seen.values()) + sum(1 for each in tables if each > level)
        return cls(max(1, len(kept) + len(tables)), tables.count(level), seen, unseen)


class LimitedLevel:
    """Keeps a level within its room; `limit` is what the buckets of one number have in common."""

    def __init__(self, limit: StateLimit, level: int, tuning: Tuning = DEFAULT_TUNING) -> None:
        self.limit = limit
        self.room = limit.nbytes  # what the levels before have left of it
        self._level = level
        self._tuning = tuning
        self._ledgers: dict[str, EndLedger] = {}  # by relation
        self._foreseen: dict[int, EndLedger] = {}  # bytes, by later level
        self._later: dict[str, list[Relation]] = {}  # by source, or by their name
        self._seats = Seats(1, 0, {}, 0)
        self._row_index_bytes = float(INDEX_BYTES)

    def serve(self, plan: SharedLevel, tails: HeldTails) -> None:
        """Takes in what the queries are from now on."""
        self._seats = Seats.of(plan.dataflow, self._level)
        self._later = {}
        for relation in plan.dataflow.relations:
            if relation.level > self._level:
                for name in {relation.name, relation.source}:
                    self._later.setdefault(name, []).append(relation)
        self._ledgers = {name: one for name, one in self._ledgers.items() if name in plan.relations}
        self._foreseen = {level: one for level, one in self._foreseen.items() if level in self._seats.seen}
        sheds = self.limit.shed is not Shed.NONE
        tails.limit_values(self.limit.nbytes // self._seats.all if sheds else None)

    @property
    def piece_bytes(self) -> int:
        """How much of a batch is joined at once."""
        return max(1, self.limit.nbytes // thinning.PIECES)

    def foresee(self, source: str, rows: pa.RecordBatch | pa.Table) -> None:
        """Notes rows that later levels will keep, of a feed or for a relation."""
        for relation in self._later.get(source, ()):
            if not rows.num_rows or relation.level not in self._seats.seen:
                continue
            ts = np.asarray(rows.column(TS))
            ends = _ends(relation, ts, rows)
            each = rows.nbytes / rows.num_rows + self._row_index_bytes
            ledger = self._foreseen.setdefault(relation.level, EndLedger(self._tuning))
            ledger.come(ts, ends, np.full(len(ts), each))

    def seed(self, stores: Stores) -> None:
        """Takes notice of rows that were there before the limit was."""
        for name, store in stores.items():
            if self._counts_shares and name not in self._ledgers and store.chunks:
                ledger = self._ledgers[name] = EndLedger(self._tuning)
                for chunk in store.chunks:
                    ts = np.asarray(chunk.column(TS))
                    ledger.come(ts, store.ends_of(chunk, ts), _stands_in(chunk))

    def enter(self, name: str, store: RelationStore, arrivals: Arrivals) -> None:
        """Takes notice of rows that later ones will meet."""
        if self._counts_shares:
            stands = _stands_of(store, arrivals.rows)
            amounts = np.ones(len(arrivals)) if stands is None else stands
            ledger = self._ledgers.setdefault(name, EndLedger(self._tuning))
            ledger.come(arrivals.ts, arrivals.ends, amounts)

    def weigh(self, stores: Stores, found: SharedPartials) -> Floats | None:
        """How many results each of these stands for; None if none for more than itself.

        The first member is the one whose rows are new: they have met what there was.
        """
        weights = None
        for number, (name, rows) in enumerate(found.rows.items()):
            factors = [_stands_of(stores[name], rows)]
            if self.limit.shed is Shed.LEAST:
                kept = stores[name].inclusion_probabilities(rows)
                factors.append(None if kept is None else 1 / kept.astype(np.float64))
            elif number and (ledger := self._ledgers.get(name)) is not None and ledger.has_lost:
                share = ledger.kept_share(found.max_ts)
                factors.append(1 / np.where(share > 0, share, 1.0))
            for factor in factors:
                if factor is not None:
                    weights = factor if weights is None else weights * factor
        return weights

    def expire(self, bounds: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Forgets what can be met no more; `bounds` is how far relations have come, `after` the streams."""
        for name, ledger in self._ledgers.items():
            ledger.expire(bounds.get(name, BEGINNING))
        known = [bound for bound in after.values() if bound != BEGINNING]
        for ledger in self._foreseen.values():
            ledger.expire(min(known, default=BEGINNING))

    def keep_within(
        self,
        plan: SharedLevel,
        stores: dict[str, RelationStore],
        tails: HeldTails,
        bounds: Mapping[str, int],
        counts: SharedCounts,
    ) -> None:
        """Sheds until the level takes no more than its room."""
        used = {name: store.payload_bytes + store.used_index_bytes for name, store in stores.items()}
        rows = sum(store.indexed_rows for store in stores.values())
        if rows:
            self._row_index_bytes = sum(store.used_index_bytes for store in stores.values()) / rows
        taken = sum(used.values()) + tails.nbytes
        allowed = self._allowed(used, tails)
        if taken <= allowed:
            return
        if self.limit.shed is not Shed.NONE:
            held = HELD_SHARE * max(0, allowed - tails.values_nbytes)
            if tails.held_nbytes > held:
                lost = tails.thin(int(SHED_TO * held))
                counts.found -= lost
                counts.missed += lost
        holder = _LevelHolder(plan, stores, bounds, self._tuning)
        thinning.bring_under(holder, replace(self.limit, nbytes=allowed), tails.nbytes)
        for name, (ends, stands) in holder.lost.items():
            counts.shed[name] = counts.shed.get(name, 0) + len(ends)
            if self._counts_shares:
                self._ledgers.setdefault(name, EndLedger(self._tuning)).go(ends, stands)

    def snapshot(self) -> dict[str, Any]:
        """The few numbers to persist, fit for JSON."""
        return {
            "ledgers": {name: one.snapshot() for name, one in self._ledgers.items()},
            "foreseen": {str(level): one.snapshot() for level, one in self._foreseen.items()},
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Becomes what was persisted, as far as the policy is one that counts so."""
        if self._counts_shares:
            for name, one in snapshot["ledgers"].items():
                self._ledgers[name] = EndLedger.restore(one, self._tuning)
        for level, one in snapshot["foreseen"].items():
            self._foreseen[int(level)] = EndLedger.restore(one, self._tuning)

    @property
    def _counts_shares(self) -> bool:
        return self.limit.shed in (Shed.RANDOM, Shed.OLDEST)

    def _allowed(self, used: Mapping[str, int], tails: HeldTails) -> int:
        """The room of this level: what is left of the limit, without what later levels will need."""
        needs: dict[tuple[str, int | str], float] = {("own", name): need for name, need in used.items()}
        tables = self._seats.tables
        needs |= {("table", number): tails.nbytes / tables for number in range(tables)}
        later: dict[tuple[str, int | str], float] = {
            ("unseen", number): math.inf for number in range(self._seats.unseen)
        }
        for level, count in self._seats.seen.items():
            foreseen = self._foreseen[level].present if level in self._foreseen else 0.0
            later |= {(f"level {level}", number): foreseen / count for number in range(count)}
        if not later:
            return self.room
        parts = split_evenly({**needs, **later}, self.room)
        return int(self.room - sum(parts[each] for each in later))


class _LevelHolder:
    """A level whose relations are thinned."""

    def __init__(
        self, plan: SharedLevel, stores: dict[str, RelationStore], bounds: Mapping[str, int], tuning: Tuning
    ) -> None:
        self._plan = plan
        self._stores = stores
        self._bounds = bounds
        self._tuning = tuning
        self.lost: dict[str, tuple[Longs, Floats]] = {}  # by relation: ends of rows, and what they stood for

    @property
    def used_bytes(self) -> int:
        return sum(store.payload_bytes + store.used_index_bytes for store in self._stores.values())

    @property
    def live_rows(self) -> int:
        return sum(store.live_rows for store in self._stores.values())

    @property
    def merge_rows(self) -> int:
        return self._tuning.merge_rows

    def names(self) -> list[str]:
        return [name for name, store in self._stores.items() if store.chunks]

    def rows(self, name: str) -> Rows:
        store, relation = self._stores[name], self._plan.relations[name]
        chunks = in_order(store)
        ts = np.concatenate([np.asarray(chunk.column(TS)) for chunk in chunks])
        ends = self._ends(name, chunks)
        first, bound = min(chunk.min_ts for chunk in chunks), self._bounds.get(name, BEGINNING)
        base = max(bound, first - 1)
        bounded = ends < NEVER
        longest = int((ends[bounded] - base).max()) if bounded.any() else 0
        # Of rows that never expire the newer ones count as longer.
        lifetimes = np.where(bounded, ends - base, max(0, longest) + (ts - (first - 1)))
        span_us = relation.window.duration_us if relation.window is not None else None
        return rows_of(
            name,
            store,
            chunks,
            ts=ts,
            live=ends > bound,
            remaining=np.maximum(lifetimes, 1).astype(np.float64),
            span_us=span_us,
        )

    def next_chunk(self, name: str) -> int:
        return self._stores[name].next_chunk

    def random(self, rows: Rows) -> thinning.Floats:
        """By all that a row has: rows that are alike can stand for each other."""
        relation = self._plan.relations[rows.name]
        own = np.full(len(rows.ts), zlib.crc32(rows.name.encode()), np.uint64)
        times = [rows.ts.view(np.uint64), self._ends(rows.name, rows.chunks).view(np.uint64)]
        columns = dict.fromkeys((*relation.keys, *relation.columns))
        return as_random(combine_hashes([own, *times, *(_hashes(rows.chunks, name) for name in columns)]))

    def weigh(self) -> Callable[[Rows], thinning.Floats]:
        """By how many results to expect of a row in the joins of this level, and what it stands for."""
        tables = {}
        for name in self.names():
            rows = self.rows(name)
            route = self._plan.relations[name].route
            tables[name] = count_hashes(_hashes(rows.chunks, route)[rows.live])
        return partial(self._expected_results, tables)

    def put_together(self, run: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        together = concat_unlike(run)
        return order_by_end(together, self._tuning) if END in together.schema.names else together

    def replace(self, name: str, chunks: list[PersistedChunk]) -> None:
        next_chunk = self._stores[name].next_chunk
        # Before the new indexes are built: not both at once.
        store = self._stores[name] = RelationStore(self._plan.relations[name], self._tuning)
        for chunk in sorted(chunks, key=lambda chunk: chunk.number):
            store.index(store.keep(chunk.wide, chunk.number))
        store.next_chunk = max(next_chunk, store.next_chunk)

    def lose(self, rows: Rows, lost: Mask) -> None:
        ends = self._ends(rows.name, rows.chunks)[lost]
        stands = np.concatenate([_stands_in(chunk) for chunk in rows.chunks])[lost]
        if rows.name in self.lost:
            before = self.lost[rows.name]
            ends, stands = np.concatenate([before[0], ends]), np.concatenate([before[1], stands])
        self.lost[rows.name] = ends, stands

    def _ends(self, name: str, chunks: Sequence[Chunk]) -> Longs:
        store = self._stores[name]
        return np.concatenate([store.ends_of(chunk, np.asarray(chunk.column(TS))) for chunk in chunks])

    def _expected_results(
        self, tables: Mapping[str, tuple[np.uint64, npt.NDArray[np.int64]]], rows: Rows
    ) -> thinning.Floats:
        """All members of a join are equal on the columns that they are routed by."""
        routes = _hashes(rows.chunks, self._plan.relations[rows.name].route)
        expected = np.zeros(len(rows.ts))
        for join in self._plan.joins.values():
            if rows.name in join.members and len(join.members) > 1:
                product = np.ones(len(rows.ts))
                for other in join.members:
                    if other != rows.name:
                        known = tables.get(other)
                        product *= 0.25 if known is None else counted(routes, *known)
                expected += product
        stands: Floats = np.concatenate([_stands_in(chunk) for chunk in rows.chunks])
        return np.asarray(expected * stands)


def in_own_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """New rows in an order that follows from what they are.

    When a batch is done again they may come in another order. What is shed would depend on it, since it says
    where chunks are cut, and so what these take.
    """
    ts = np.asarray(rows.column(TS))
    order = np.lexsort((combine_hashes([hash_column(column) for column in rows.columns]), ts))
    return rows.take(pa.array(order))


def _hashes(chunks: Sequence[Chunk], column: str) -> Hashes:
    return np.concatenate([hash_column(chunk.column(column)) for chunk in chunks])


def _ends(relation: Relation, ts: Longs, rows: pa.RecordBatch | pa.Table) -> Longs:
    if relation.window is not None:
        return relation.window.known_end_us(ts)
    return np.asarray(rows.column(END))


def _stands_in(chunk: Chunk) -> Floats:
    """How many results each row of a chunk stands for."""
    return _as_stands(chunk.column(STANDS))


def _stands_of(store: RelationStore, rows: Longs) -> Floats | None:
    """How many results each of these rows stands for; None if none for more than itself."""
    return _as_stands(store.take([STANDS], rows)[0]) if STANDS in store.columns else None


def _as_stands(column: pa.Array) -> Floats:
    known = column.cast(pa.float64())
    return np.asarray(known.fill_null(1.0) if known.null_count else known)
