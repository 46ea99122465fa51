"""How tuples are laid out in chunks: the columns the kernel reads beside the payload.

A chunk is an Arrow record batch of one input. It holds the event time as whole microseconds, one key column
per attribute class (the payload column itself where the key is a bare column), the payload that answers need
and, for ROWS windows, each tuple's row position in its stream. The names of columns are part of the state
format.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.query import Input, Query, Window

TS = "__ts"  # int64: event time, microseconds since the epoch
REF = "__ref"  # int64: where the rest of a tuple's payload is, when it comes after the join
POSITION = "__position"  # int64: 0-based row position in the stream, for ROWS windows
KEEP = "__keep"  # bool: whether the local filters hold, where rows are counted before filtering
IN_VIEW = "__in_view"  # bool: whether a row that is to be packed is a tuple of its view at all
MARK = "__mark"  # int64: in rows that are no tuples, before when no later tuple of their stream is
KEPT = "__kept"  # float32: inclusion probability of a tuple, in chunks that were thinned by weight
ANSWER_TS = "__answer_ts"  # int64: t, the largest event time of an answer's tuples
TICK = "__tick"  # int64: the tick at which an answer is sampled
ANSWER_END = "__answer_end"  # int64: when the first of its tuples leaves its window
ENDED = "__ended"  # bool: whether an answer has been let out before, and is only to tell its end

_NESTED = ("array", "map", "struct", "variant")


@dataclass(frozen=True)
class InputLayout:
    """One input: its window, its key column for each attribute class, its payload."""

    alias: str
    window: Window
    keys: tuple[tuple[int, str], ...]
    payload: tuple[str, ...]
    keeps_null: bool = False  # whether tuples without a key count: an outer join may answer them
    routed_by: tuple[int, ...] | None = None  # the classes that choose a tuple's bucket; None: all of them
    order_by: tuple[str, ...] = ()  # further columns by which rows are counted, each value by itself
    keeps: bool = False  # whether tuples that fail the local filters are there too, and say so
    other_names: tuple[tuple[str, str], ...] = ()  # of keys, in chunks of a query before this one
    follows: bool = False  # whether answers say which tuple they have, as its end may come later than they do

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns without which a tuple cannot be in any answer."""
        without_key = self.window.counts_rows or self.keeps_null
        return (TS,) if without_key else (TS, *(name for _, name in self.keys))

    @property
    def classes(self) -> tuple[int, ...]:
        return tuple(cls for cls, _ in self.keys)

    def key(self, cls: int) -> str:
        return dict(self.keys)[cls]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column a chunk of this input holds, each once."""
        positions = (POSITION,) if self.window.numbers_rows or self.follows else ()
        keep = (KEEP,) if self.keeps else ()
        keys = (name for _, name in self.keys)
        return tuple(dict.fromkeys((TS, *positions, *keep, *keys, *self.payload, *self.order_by)))

    @property
    def arriving(self) -> tuple[str, ...]:
        """The columns with which tuples come to the join; under PARTITION BY its store numbers them."""
        return tuple(name for name in self.columns if name != POSITION or self.window.numbers_rows)

    @property
    def answered(self) -> tuple[str, ...]:
        """The columns that answers have of it."""
        return (*self.payload, POSITION) if self.follows else self.payload

    @property
    def routing_classes(self) -> tuple[int, ...]:
        """The classes by whose keys tuples are sent to different buckets."""
        return self.classes if self.routed_by is None else self.routed_by


@dataclass(frozen=True)
class JoinLayout:
    """All inputs of one join; `delayed` joins wait until the watermark is past a tuple."""

    inputs: tuple[InputLayout, ...]
    delayed: bool

    def of(self, alias: str) -> InputLayout:
        return next(item for item in self.inputs if item.alias == alias)


def key_column(cls: int) -> str:
    """The name of the key column of a class whose attribute is not itself a payload column."""
    return f"__key{cls}"


def lay_out(query: Query) -> JoinLayout:
    """The layout of a query's chunks; a key that is a payload column of its class's type is sent once."""
    inputs = []
    for item in query.inputs:
        payload, bare = query.payload(item.alias), query.bare_keys(item.alias)
        keys, other_names = [], []
        for cls in query.graph.classes_of(item.alias):
            column, own = bare.get(cls), key_column(cls)
            is_payload = column is not None and column in payload
            keys.append((cls, column if column is not None and is_payload else own))
            if column is not None:
                other_names.append((column, own) if is_payload else (own, column))
        laid_out = _lay_out(query, item, tuple(keys), payload)
        inputs.append(replace(laid_out, other_names=tuple(other_names)))
    return JoinLayout(tuple(inputs), query.joins_delayed)


def _lay_out(
    query: Query, item: Input, keys: tuple[tuple[int, str], ...], payload: tuple[str, ...]
) -> InputLayout:
    has_lifetimes = query.distinct or query.aggregate is not None
    follows = has_lifetimes and item.window.counts_rows and query.tree is None
    if not item.window.partition:
        return InputLayout(item.alias, item.window, keys, payload, follows=follows)
    return InputLayout(
        item.alias,
        item.window,
        keys,
        payload,
        routed_by=query.routing_classes(item.alias),
        order_by=columns_of_order(item),
        keeps=bool(item.filters),
        follows=follows,
    )


def columns_of_order(item: Input) -> tuple[str, ...]:
    """The columns of PARTITION BY, and those that order the tuples of an instant."""
    scalars = (
        column.name
        for column in item.stream.columns
        if column.name != item.stream.event_time and not column.type.lower().startswith(_NESTED)
    )
    return tuple(dict.fromkeys((*item.window.partition, *scalars)))


def check_chunk(layout: InputLayout, chunk: pa.RecordBatch) -> pa.RecordBatch:
    """The chunk with exactly the columns of its layout, or a DataError that names what is missing.

    A chunk with references may lack payload, which comes after the join.
    """
    missing = [name for name in layout.columns if name not in chunk.schema.names]
    if missing and REF in chunk.schema.names and not set(missing) & {TS, *(name for _, name in layout.keys)}:
        return chunk.select([*(name for name in layout.columns if name not in missing), REF])
    if missing:
        raise DataError(f"a chunk of {layout.alias} lacks the columns {', '.join(missing)}")
    if chunk.schema.field(TS).type != pa.int64():
        raise DataError(f"the event time of {layout.alias} must be int64 microseconds")
    return chunk.select(list(layout.columns))
