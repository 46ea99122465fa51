"""The tree of joins of one bucket: blocks of inner joins, and the nodes above them.

A step goes through the tree from its leaves: what a block or a node brings forth is fed to the node above it,
in blocks of bounded size, and once both sides of a node have brought all they have, it lets go of what is
decided. So a row that has to leave for want of a match leaves in the step in which the watermark passes the
end of its lifetime, however many nodes it has to go through, unless one above must wait for late partners.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.hash_index import Longs
from watersmeet.kernel.join.step_counts import StepCounts
from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS, JoinLayout
from watersmeet.kernel.outer.leaves import Batch, Leaves, with_times
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
from watersmeet.kernel.progress.row_numbers import RowPositions
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.state.chunks import PersistedChunk
from watersmeet.kernel.state.slice import ends_from_positions
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import BEGINNING, NEVER, Window
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
        self._blocks = [part for part in walk(tree.root) if isinstance(part, BlockLayout)]
        self._leaves = Leaves(layout, self._blocks, tuning)
        self._nodes: dict[int, NodeJoin] = {}
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
        batch = Batch(new, known, self.watermark, max(watermark, self.watermark), received or {})
        settled = self._leaves.enter(self._blocks, batch, self.counts)
        for alias, own in known.items():
            settled[alias] = partial(_ends, self.layout.of(alias).window, own)
        for node in self._nodes.values():
            node.probes = 0
            for alias, ends_of in settled.items():
                node.settle(alias, ends_of)
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
        for join in self._leaves.joins.values():
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
        return self._leaves.live_rows + sum(side.store.live_rows for side in self._sides)

    @property
    def payload_bytes(self) -> int:
        return self._leaves.payload_bytes + sum(side.nbytes for side in self._sides)

    @property
    def index_bytes(self) -> int:
        return self._leaves.index_bytes + sum(side.store.index_bytes for side in self._sides)

    @property
    def used_bytes(self) -> int:
        """Memory in use by rows and indexes, without what indexes have reserved to grow into."""
        return self._leaves.used_bytes + sum(
            side.nbytes + side.store.used_index_bytes for side in self._sides
        )

    def persisted(self) -> list[PersistedChunk]:
        """The chunks that a state store must hold; a block's by alias, a node's by its number and side."""
        return self._leaves.persisted() + [
            chunk for node in self._nodes.values() for chunk in node.persisted()
        ]

    def numbers(self) -> dict[str, Any]:
        """What to persist beside the chunks, fit for JSON."""
        return {**self._leaves.numbers(), "nodes": [node.snapshot() for node in self._nodes.values()]}

    def restore(self, watermark: int, numbers: Mapping[str, Any], chunks: Iterable[PersistedChunk]) -> None:
        """Becomes the join that was persisted so; this one must be new."""
        everything = list(chunks)
        self.watermark = watermark
        self._leaves.restore(watermark, numbers, everything)
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
        if not isinstance(part, NodeLayout):
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

    def _run(self, part: TreeLayout, batch: Batch) -> Iterator[Combinations]:
        """All that a part of the tree brings forth in a step."""
        if isinstance(part, BlockLayout):
            yield from self._leaves.run(part, batch, self.counts)
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

    def _least_ts(self, part: TreeLayout, batch: Batch) -> int:
        """What a part of the tree brings from the next step on has no earlier t."""
        if isinstance(part, NodeLayout):
            return self._nodes[id(part)].least_ts
        return _behind(batch.watermark, delay_us(part))


def _behind(watermark: int, delay: int | None) -> int:
    """The earliest t of what comes at most so much behind the watermark."""
    if watermark == NEVER:
        return NEVER
    assert delay is not None, "under such windows answers come as late as they like"
    return max(BEGINNING, watermark - delay)


def _ends(window: Window, known: RowPositions, positions: Longs) -> Longs:
    """When rows end, as far as the new positions of their stream say so."""
    return ends_from_positions(window, positions, known.first, known.ts)


def _combinations(answers: pa.RecordBatch) -> Combinations:
    """Answers of another stage as combinations."""
    return with_times(dict(zip(answers.schema.names, answers.columns, strict=True)))


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
    is_single = isinstance(below, BlockLayout) and len(below.inputs) == 1 and not counted
    alone = node.kind.preserves_left if name == LEFT else node.kind is JoinKind.FULL
    return SideLayout(
        section=section,
        columns=columns,
        keys=tuple(pair[0 if name == LEFT else 1] for pair in node.keys),
        read=tuple(column for column in node.read if column in columns),
        window=next(inputs_of(below)).window if is_single else None,
        positions=counted,
        keeps_unmatched=alone,
        has_marks=alone or (name == LEFT and node.kind is JoinKind.SEMI),
    )
