"""The tree of joins of one bucket: blocks of inner joins, and the nodes above them.

A step goes through the tree from its leaves: what a block or a node brings forth is fed to the node above it,
in blocks of bounded size, and once both sides of a node have brought all they have, it lets go of what is
decided. So a row that has to leave for want of a match leaves in the step in which the watermark passes the
end of its lifetime, however many nodes it has to go through, unless one above must wait for late partners.
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
from watersmeet.kernel.outer.node import LEFT, RIGHT, JoinedSides, NodeJoin
from watersmeet.kernel.outer.side import Combinations, Side, SideLayout
from watersmeet.kernel.outer.tree_layout import (
    BlockLayout,
    NodeLayout,
    OuterLayout,
    ReceivedLayout,
    TreeLayout,
    columns_of_inputs,
    delay_us,
    inputs_of,
    kept_columns,
    position_columns,
    walk,
)
from watersmeet.kernel.progress.row_numbers import NO_POSITIONS, RowPositions
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.state.slice import ends_from_positions
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import BEGINNING, NEVER
from watersmeet.query.join_tree import JoinKind


@dataclass(frozen=True)
class StoredInput:
    """How much is kept of an input."""

    live_rows: int
    payload_bytes: int


class TreeJoin:
    """One bucket's tree: `step` takes a micro-batch and yields answers, `persisted` is what to keep."""

    def __init__(self, layout: JoinLayout, tree: OuterLayout, tuning: Tuning = DEFAULT_TUNING) -> None:
        self.layout = layout
        self.tuning = tuning
        self.watermark = BEGINNING
        self.counts = StepCounts()
        self.arrived: Mapping[str, Arrivals] = {}
        self._tree = tree
        self._delay_us = delay_us(tree.root)
        self._blocks: dict[int, MultiwayJoin] = {}
        self._nodes: dict[int, NodeJoin] = {}
        self._late: dict[str, int] = {}
        self._add(tree.root, tree.answers)

    def step(
        self,
        new: Mapping[str, pa.RecordBatch],
        watermark: int,
        positions: Mapping[str, RowPositions] | None = None,
        received: Mapping[int, Sequence[pa.RecordBatch]] | None = None,
    ) -> Iterator[pa.Table]:
        """Joins a micro-batch, yielding answers in blocks, then moves to the watermark at its end.

        Tuples before the previous watermark are late: dropped and counted. What is `received` of parts that
        other stages join never is: it comes `delay_us` behind the watermark, at the latest. The iterator must
        be exhausted.
        """
        self.counts = StepCounts()
        known = positions or {}
        for alias, own in known.items():
            for node in self._nodes.values():
                node.settle_positions(alias, own)
        for node in self._nodes.values():
            node.probes = 0
        batch = _Batch(new, known, max(watermark, self.watermark), received or {})
        for found in self._run(self._tree.root, batch):
            self.counts.answers += len(found)
            times = {ANSWER_TS: pa.array(found.ts), ANSWER_END: pa.array(found.ends)}
            yield pa.table({**{name: found.columns[name] for name in self._tree.answers}, **times})
        self.counts.probes += sum(node.probes for node in self._nodes.values())
        self.watermark = max(watermark, self.watermark)

    @property
    def settled_us(self) -> int:
        """No answer yet to come has an earlier t: the same in every bucket at one watermark."""
        return _behind(self.watermark, self._delay_us)

    @property
    def stores(self) -> dict[str, StoredInput]:
        """What is kept of each input: of one that is a side by itself, the rows of that side."""
        found = {}
        for join in self._blocks.values():
            for alias, store in join.stores.items():
                found[alias] = StoredInput(store.live_rows, store.payload_bytes)
        for part in self._parts:
            for name in (LEFT, RIGHT):
                side = getattr(part, name)
                if isinstance(side, BlockLayout) and len(side.inputs) == 1:
                    own = self._nodes[id(part)].sides[name]
                    found[side.inputs[0].alias] = StoredInput(own.store.live_rows, own.nbytes)
        return found

    @property
    def chunk_count(self) -> int:
        return len(self.persisted())

    @property
    def live_rows(self) -> int:
        blocks = sum(join.live_rows for join in self._blocks.values())
        return blocks + sum(side.store.live_rows for side in self._sides)

    @property
    def payload_bytes(self) -> int:
        blocks = sum(join.payload_bytes for join in self._blocks.values())
        return blocks + sum(side.nbytes for side in self._sides)

    @property
    def index_bytes(self) -> int:
        blocks = sum(join.index_bytes for join in self._blocks.values())
        return blocks + sum(side.store.index_bytes for side in self._sides)

    @property
    def used_bytes(self) -> int:
        """Memory in use by rows and indexes, without what indexes have reserved to grow into."""
        blocks = sum(join.used_bytes for join in self._blocks.values())
        return blocks + sum(side.nbytes + side.store.used_index_bytes for side in self._sides)

    def persisted(self) -> list[PersistedChunk]:
        """The chunks that a state store must hold; a block's by alias, a node's by its number and side."""
        blocks = [chunk for join in self._blocks.values() for chunk in join.persisted()]
        return blocks + [chunk for node in self._nodes.values() for chunk in node.persisted()]

    def numbers(self) -> dict[str, Any]:
        """What to persist beside the chunks, fit for JSON."""
        blocks = [join.snapshot().to_json() for join in self._blocks.values()]
        return {"blocks": blocks, "nodes": [node.snapshot() for node in self._nodes.values()]}

    def restore(self, watermark: int, numbers: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> None:
        """Becomes the join that was persisted so; this one must be new."""
        everything = list(chunks)
        self.watermark = watermark
        for join, own in zip(self._blocks.values(), numbers["blocks"], strict=True):
            held = [chunk for chunk in everything if chunk.section in join.stores]
            join.catch_up(Snapshot.of(watermark, own), held)
        for node, known in zip(self._nodes.values(), numbers["nodes"], strict=True):
            node.restore(known, everything)

    @property
    def _parts(self) -> list[NodeLayout]:
        return [part for part in walk(self._tree.root) if isinstance(part, NodeLayout)]

    @property
    def _sides(self) -> list[Side]:
        return [side for node in self._nodes.values() for side in node.sides.values()]

    def _add(self, part: TreeLayout, needed: Sequence[str]) -> None:
        """Makes the join of a part of the tree, of which these columns are needed above."""
        if isinstance(part, BlockLayout):
            if len(part.inputs) > 1:
                layout = JoinLayout(part.inputs, self.layout.delayed)
                self._blocks[id(part)] = MultiwayJoin(layout, None, self.tuning)
            return
        if isinstance(part, ReceivedLayout):
            return
        below, leaving, kept = {LEFT: part.left, RIGHT: part.right}, {}, {}
        for name, side in below.items():
            own = columns_of_inputs(side)
            leaving[name] = tuple(column for column in needed if column in own)
            kept[name] = kept_columns(part, side, needed)
            self._add(side, kept[name])
        number = len(self._nodes)
        sides = {
            name: lay_out_side(part, name, below[name], kept[name], f"#{number}.{name}") for name in below
        }
        plan = JoinedSides(part.kind, sides, part.condition, leaving, self._tree.types)
        self._nodes[id(part)] = NodeJoin(plan, self.tuning)

    def _run(self, part: TreeLayout, batch: _Batch) -> Iterator[Combinations]:
        """All that a part of the tree brings forth in a step."""
        if isinstance(part, BlockLayout):
            yield from self._filtered(part, self._block(part, batch))
            return
        if isinstance(part, ReceivedLayout):
            yield from map(_combinations, batch.received.get(part.number, ()))
            return
        node = self._nodes[id(part)]
        for name, below in ((LEFT, part.left), (RIGHT, part.right)):
            for new in _gathered(self._run(below, batch), self.tuning.block_bytes):
                yield from node.feed(name, new)
        yield from node.close(
            {LEFT: self._least_ts(part.left, batch), RIGHT: self._least_ts(part.right, batch)}
        )

    def _least_ts(self, part: TreeLayout, batch: _Batch) -> int:
        """What a part of the tree brings from the next step on has no earlier t."""
        if isinstance(part, NodeLayout):
            return self._nodes[id(part)].least_ts
        return _behind(batch.watermark, delay_us(part))

    def _block(self, part: BlockLayout, batch: _Batch) -> Iterator[Combinations]:
        if len(part.inputs) == 1:
            new = batch.tuples.get(part.inputs[0].alias)
            if new is not None and new.num_rows:
                yield from self._tuples(part.inputs[0], new, batch)
            return
        own = {item.alias for item in part.inputs}
        join = self._blocks[id(part)]
        tuples = {alias: new for alias, new in batch.tuples.items() if alias in own}
        known = {alias: positions for alias, positions in batch.positions.items() if alias in own}
        for table in join.step(tuples, batch.watermark, known):
            columns = {name: table[name].combine_chunks() for name in table.column_names}
            yield _with_times(columns)
        join.arrived = {}
        self.counts.late.update(join.counts.late)
        self.counts.probes += join.counts.probes

    def _tuples(self, item: InputLayout, new: pa.RecordBatch, batch: _Batch) -> Iterator[Combinations]:
        """The tuples of an input that is a side by itself."""
        new = check_chunk(item, new)
        ts: np.ndarray = np.array(new.column(TS), np.int64)
        accepted = ts >= self.watermark
        self.counts.late[item.alias] = int(len(ts) - np.count_nonzero(accepted))
        if item.window.counts_rows:
            known = batch.positions.get(item.alias, NO_POSITIONS)
            at = np.array(new.column(POSITION), np.int64)
            ends = ends_from_positions(item.window, at, known.first, known.ts)
        else:
            ends = item.window.known_end_us(ts)
        accepted &= ts < ends  # among many rows of one instant some leave the moment they enter
        chosen = None if accepted.all() else pa.array(np.flatnonzero(accepted))
        columns = {
            f"{item.alias}.{name}": new.column(name) if chosen is None else new.column(name).take(chosen)
            for name in item.columns
        }
        yield Combinations(ts[accepted], ends[accepted], columns)

    def _filtered(self, part: BlockLayout, found: Iterator[Combinations]) -> Iterator[Combinations]:
        """The combinations that meet the conditions over several inputs of a block."""
        for each in found:
            if part.condition is None or not len(each):
                yield each
                continue
            keep = holds(part.condition, each.columns.__getitem__, len(each))
            columns = {name: column.filter(pa.array(keep)) for name, column in each.columns.items()}
            yield Combinations(each.ts[keep], each.ends[keep], columns)


@dataclass(frozen=True)
class _Batch:
    """A micro-batch on its way through the tree."""

    tuples: Mapping[str, pa.RecordBatch]
    positions: Mapping[str, RowPositions]
    watermark: int  # at its end
    received: Mapping[int, Sequence[pa.RecordBatch]]  # of parts that other stages join, by their numbers


def _behind(watermark: int, delay: int | None) -> int:
    """The earliest t of what comes at most so much behind the watermark."""
    if watermark == NEVER:
        return NEVER
    assert delay is not None, "under such windows answers come as late as they like"
    return max(BEGINNING, watermark - delay)


def _combinations(answers: pa.RecordBatch) -> Combinations:
    """Answers of another stage as combinations."""
    return _with_times(dict(zip(answers.schema.names, answers.columns, strict=True)))


def _with_times(columns: dict[str, pa.Array]) -> Combinations:
    """Columns of answers, the times of which are set apart."""
    ts, ends = (np.asarray(columns.pop(name)) for name in (ANSWER_TS, ANSWER_END))
    return Combinations(ts, ends, columns)


def _gathered(found: Iterable[Combinations], nbytes: int) -> Iterator[Combinations]:
    """Combinations put together as long as they take no more than so many bytes."""
    held: list[Combinations] = []
    taken = 0
    for each in found:
        if not len(each):
            continue
        if held and taken + each.nbytes > nbytes:
            yield _together(held)
            held, taken = [], 0
        held.append(each)
        taken += each.nbytes
    if held:
        yield _together(held)


def _together(parts: Sequence[Combinations]) -> Combinations:
    if len(parts) == 1:
        return parts[0]
    columns = {name: _concat([part.columns[name] for part in parts]) for name in parts[0].columns}
    ts, ends = np.concatenate([part.ts for part in parts]), np.concatenate([part.ends for part in parts])
    return Combinations(ts, ends, columns)


def _concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """Arrays end to end; where nothing has come yet of an input, its columns have no type."""
    type_ = next((each.type for each in arrays if not pa.types.is_null(each.type)), pa.null())
    return pa.concat_arrays([pa.nulls(len(a), type_) if pa.types.is_null(a.type) else a for a in arrays])


def lay_out_side(
    node: NodeLayout, name: str, below: TreeLayout, columns: tuple[str, ...], section: str
) -> SideLayout:
    """How a side of a node is kept."""
    positions = {column: alias for column, alias in columns_of_inputs(below).items() if column in columns}
    counted = {positions[column]: column for column in position_columns(below)}
    windows = {item.alias: item.window for item in inputs_of(below) if item.alias in counted}
    is_single = isinstance(below, BlockLayout) and len(below.inputs) == 1 and not counted
    alone = node.kind.preserves_left if name == LEFT else node.kind is JoinKind.FULL
    return SideLayout(
        section=section,
        columns=columns,
        keys=tuple(pair[0 if name == LEFT else 1] for pair in node.keys),
        read=tuple(column for column in node.read if column in columns),
        window=next(inputs_of(below)).window if is_single else None,
        positions=counted,
        windows=windows,
        keeps_unmatched=alone,
        has_marks=alone or (name == LEFT and node.kind is JoinKind.SEMI),
    )
