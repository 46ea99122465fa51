"""A micro-batch cut by time: in pieces, so that it never has to be in the state as a whole, and in cells.

For pieces, tuples of all inputs are taken in the order of their event times, so many bytes at once. All later
pieces are then known to lie at or after an instant, and tuples that only earlier ones could have met can be
forgotten between two pieces, as if the watermark had reached it. A cell is joined at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernel.columns.groups import groups_of
from watersmeet.kernel.layout import TS
from watersmeet.kernel.progress.row_numbers import RowPositions
from watersmeet.kernel.state.arrivals import Arrivals
from watersmeet.kernel.tuning import Tuning
from watersmeet.query import NEVER


@dataclass(frozen=True)
class Piece:
    """Some tuples of a micro-batch by alias, the row positions known by then, and a bound of later pieces."""

    new: Mapping[str, pa.RecordBatch]
    positions: Mapping[str, RowPositions]
    rest_from: int  # no later piece has an earlier event time


def cut_by_time(
    new: Mapping[str, pa.RecordBatch],
    positions: Mapping[str, RowPositions],
    nbytes: int,
    *,
    whole_instants: bool,
) -> Iterator[Piece]:
    """Pieces of about so many bytes; with `whole_instants` tuples of one event time stay together."""
    total = sum(batch.nbytes for batch in new.values())
    if total <= nbytes:
        yield Piece(new, positions, NEVER)
        return
    ts = np.concatenate([np.asarray(batch.column(TS)) for batch in new.values()])
    order = np.argsort(ts, kind="stable")
    rows = max(1, int(len(order) * nbytes / total))
    start, since = 0, dict.fromkeys(positions, 0)
    while start < len(order):
        stop = min(start + rows, len(order))
        if whole_instants and stop < len(order):
            stop = int(np.searchsorted(ts[order], ts[order[stop - 1]], side="right"))
        rest_from = int(ts[order[stop]]) if stop < len(order) else NEVER
        known = {}
        for alias, all_ in positions.items():
            until = len(all_.ts) if rest_from == NEVER else int(np.searchsorted(all_.ts, rest_from))
            known[alias] = RowPositions(all_.first + since[alias], all_.ts[since[alias] : until])
            since[alias] = until
        yield Piece(_picked(new, np.sort(order[start:stop])), known, rest_from)
        start = stop


def _picked(new: Mapping[str, pa.RecordBatch], chosen: np.ndarray) -> dict[str, pa.RecordBatch]:
    """The chosen rows of all batches, numbered from the first batch to the last."""
    picked, first = {}, 0
    for alias, batch in new.items():
        low, high = np.searchsorted(chosen, (first, first + batch.num_rows))
        if high > low:
            picked[alias] = batch.take(pa.array(chosen[low:high] - first))
        first += batch.num_rows
    return picked


def cells(
    ready: Mapping[str, Arrivals], shortest_us: int | None, tuning: Tuning
) -> Iterator[dict[str, Arrivals]]:
    """Tuples that span many of the shortest window, by time, so that probes meet few expired ones."""
    parts = [arrivals for arrivals in ready.values() if len(arrivals)]
    if not parts or shortest_us is None:
        yield dict(ready)
        return
    low = min(int(part.ts.min()) for part in parts)
    high = max(int(part.ts.max()) for part in parts)
    by_time = (high - low) // (tuning.cell_windows * shortest_us) + 1
    by_rows = sum(map(len, parts)) // tuning.cell_rows + 1
    count = int(min(by_time, by_rows))
    if count == 1:
        yield dict(ready)
        return
    width = (high - low) // count + 1
    parts_of: list[dict[str, Arrivals]] = [{} for _ in range(count)]
    for alias, arrivals in ready.items():
        since = arrivals.ts.view(np.uint64) - np.uint64(low % 2**64)  # it may take all 64 bits
        numbers = (since // np.uint64(width)).astype(np.int64)
        for group in groups_of(numbers):
            parts_of[int(numbers[group][0])][alias] = arrivals.pick(group)
    yield from parts_of


def in_time_order(batch: pa.RecordBatch, duration_us: int | None) -> pa.RecordBatch:
    """A batch that spans several windows, ordered, so that its expired front can be cut off."""
    if duration_us is None:
        return batch
    ts = np.asarray(batch.column(TS))
    if int(ts.max()) - int(ts.min()) <= 2 * duration_us or bool((ts[1:] >= ts[:-1]).all()):
        return batch
    return batch.take(pa.array(np.argsort(ts, kind="stable")))
