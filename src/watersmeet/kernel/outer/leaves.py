"""The leaves of a tree of joins: what becomes of the tuples of inputs before a node sees them.

A block of several inputs is the multi-way join. An input that is a side by itself comes as it is. Where some
input is under PARTITION BY, what a tuple has ended is known once the watermark is past it, so all tuples wait
for that; the last tuples of each value are counted by a store of their own, as in inner joins. What they end
is settled before anything is probed in a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.kernel.join.multiway import MultiwayJoin
from watersmeet.kernel.join.snapshot import Snapshot
from watersmeet.kernel.join.step_counts import StepCounts
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS, POSITION, TS, InputLayout, JoinLayout, check_chunk
from watersmeet.kernel.outer.condition import holds
from watersmeet.kernel.outer.side import Combinations
from watersmeet.kernel.outer.tree_layout import BlockLayout
from watersmeet.kernel.progress.row_numbers import NO_POSITIONS, RowNumberer, RowPositions
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.state.row_ends import EndsOf
from watersmeet.kernel.state.slice import ends_from_positions
from watersmeet.kernel.tuning import Tuning

WAITING = "#waiting "  # with an alias, the section of tuples that the watermark is not past


@dataclass(frozen=True)
class Batch:
    """A micro-batch on its way through the tree."""

    tuples: Mapping[str, pa.RecordBatch]
    positions: Mapping[str, RowPositions]
    before: int  # the watermark
    watermark: int  # at its end
    received: Mapping[int, Sequence[pa.RecordBatch]]  # of parts that other stages join, by their numbers


class Leaves:
    """The blocks of one bucket's tree."""

    def __init__(self, layout: JoinLayout, blocks: Sequence[BlockLayout], tuning: Tuning) -> None:
        counts = any(item.window.partition for block in blocks for item in block.inputs)
        self.joins = {
            id(block): MultiwayJoin(JoinLayout(block.inputs, layout.delayed), None, tuning)
            for block in blocks
            if len(block.inputs) > 1 or block.inputs[0].window.partition
        }
        self._waiting = {
            block.inputs[0].alias: RowNumberer(f"{WAITING}{block.inputs[0].alias}", numbers=False)
            for block in blocks
            if counts and id(block) not in self.joins and not block.inputs[0].window.numbers_rows
        }
        self._entered: dict[int, list[Combinations]] = {}  # of inputs under PARTITION BY

    def enter(self, blocks: Sequence[BlockLayout], batch: Batch, counts: StepCounts) -> dict[str, EndsOf]:
        """Takes in what ends other tuples; says when those end, by alias."""
        self._entered, settled = {}, dict[str, EndsOf]()
        for block in blocks:
            if block.inputs[0].window.partition:
                self._entered[id(block)] = list(self._joined(block, batch, counts))
                settled |= self.joins[id(block)].settled
        return settled

    def run(self, block: BlockLayout, batch: Batch, counts: StepCounts) -> Iterator[Combinations]:
        """The combinations of a block, after `enter`."""
        if id(block) in self._entered:
            yield from self._entered.pop(id(block))
        elif id(block) in self.joins:
            yield from _filtered(block, self._joined(block, batch, counts))
        else:
            new = self._released(block.inputs[0], batch, counts)
            if new is not None and new.num_rows:
                yield _combinations(block.inputs[0], new, batch)

    def persisted(self) -> list[PersistedChunk]:
        waiting = [chunk for own in self._waiting.values() for chunk in own.buffer.persisted()]
        return [chunk for join in self.joins.values() for chunk in join.persisted()] + waiting

    def numbers(self) -> dict[str, Any]:
        """What to persist beside the chunks, fit for JSON."""
        waiting = {alias: own.buffer.next_number for alias, own in self._waiting.items()}
        blocks = [join.snapshot().to_json() for join in self.joins.values()]
        return {"blocks": blocks, **({"waiting": waiting} if waiting else {})}

    def restore(self, watermark: int, numbers: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> None:
        """Become the leaves that were persisted so; these must be new."""
        everything = list(chunks)
        for join, own in zip(self.joins.values(), numbers["blocks"], strict=True):
            held = [chunk for chunk in everything if chunk.section in join.stores]
            join.catch_up(Snapshot.of(watermark, own), held)
        for alias, numberer in self._waiting.items():
            numberer.watermark = watermark
            for chunk in sorted(everything, key=lambda chunk: chunk.number):
                if chunk.section == numberer.buffer.section:
                    numberer.buffer.add(chunk.wide, chunk.number)
            numberer.buffer.next_number = numbers["waiting"][alias]

    @property
    def live_rows(self) -> int:
        waiting = sum(own.buffer.rows for own in self._waiting.values())
        return sum(join.live_rows for join in self.joins.values()) + waiting

    @property
    def payload_bytes(self) -> int:
        return sum(join.payload_bytes for join in self.joins.values()) + self._waiting_bytes

    @property
    def index_bytes(self) -> int:
        return sum(join.index_bytes for join in self.joins.values())

    @property
    def used_bytes(self) -> int:
        return sum(join.used_bytes for join in self.joins.values()) + self._waiting_bytes

    @property
    def _waiting_bytes(self) -> int:
        return sum(own.buffer.nbytes for own in self._waiting.values())

    def _joined(self, block: BlockLayout, batch: Batch, counts: StepCounts) -> Iterator[Combinations]:
        own = {item.alias for item in block.inputs}
        join = self.joins[id(block)]
        tuples = {alias: new for alias, new in batch.tuples.items() if alias in own}
        known = {alias: positions for alias, positions in batch.positions.items() if alias in own}
        for table in join.step(tuples, batch.watermark, known):
            yield with_times({name: table[name].combine_chunks() for name in table.column_names})
        join.arrived = {}
        counts.late.update(join.counts.late)
        counts.probes += join.counts.probes

    def _released(self, item: InputLayout, batch: Batch, counts: StepCounts) -> pa.RecordBatch | None:
        """The tuples of an input that is a side by itself, once they may be joined; late ones are dropped."""
        new = batch.tuples.get(item.alias)
        if new is not None:
            new = check_chunk(item, new)
            accepted = np.asarray(new.column(TS)) >= batch.before
            counts.late[item.alias] = int(len(accepted) - np.count_nonzero(accepted))
            new = new if accepted.all() else new.filter(pa.array(accepted))
        waiting = self._waiting.get(item.alias)
        if waiting is None:
            return new
        if new is not None and new.num_rows:
            waiting.push(new)
        return waiting.release(batch.watermark)[0]


def with_times(columns: dict[str, pa.Array]) -> Combinations:
    """Columns of answers as combinations, the times set apart."""
    ts, ends = (np.asarray(columns.pop(name)) for name in (ANSWER_TS, ANSWER_END))
    return Combinations(ts, ends, columns)


def _combinations(item: InputLayout, new: pa.RecordBatch, batch: Batch) -> Combinations:
    """The tuples of an input that is a side by itself."""
    ts: np.ndarray = np.array(new.column(TS), np.int64)
    if item.window.numbers_rows:
        known = batch.positions.get(item.alias, NO_POSITIONS)
        at = np.array(new.column(POSITION), np.int64)
        ends = ends_from_positions(item.window, at, known.first, known.ts)
    else:
        ends = item.window.known_end_us(ts)
    enters = ts < ends  # among many rows of one instant some leave the moment they enter
    chosen = None if enters.all() else pa.array(np.flatnonzero(enters))
    columns = {
        f"{item.alias}.{name}": new.column(name) if chosen is None else new.column(name).take(chosen)
        for name in item.columns
    }
    return Combinations(ts[enters], ends[enters], columns)


def _filtered(block: BlockLayout, found: Iterator[Combinations]) -> Iterator[Combinations]:
    """The combinations that meet the conditions over several inputs of a block."""
    for each in found:
        if block.condition is None or not len(each):
            yield each
            continue
        keep = holds(block.condition, each.columns.__getitem__, len(each))
        columns = {name: column.filter(pa.array(keep)) for name, column in each.columns.items()}
        yield Combinations(each.ts[keep], each.ends[keep], columns)
