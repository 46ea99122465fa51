"""Mail between the sites of a semijoin plan as a chunk on a link: messages in order, and marks.

    first_us, _ts   the beginning of the first interval that a message in it is of, and the end of the last
    tuples, priced  how many tuples there are in it, and the bytes of all messages by the statistics, which is
                    what the simulator counts
    lane, number    mails of a lane from one site to another are numbered, and are read in this order
    body      the mail in Arrow: a row of lists, as below

    messages  copy, way, kind, interval, probe, bytes, and how many items, values and numbers are its own
    marks     kind, copy, probe, mark
    items     t, end, number of each; its members follow each other in `at`, as positions in their rows
    numbers   counts, ends, entries, bits
    keys C    values of attribute class C
    rows A    the members of input A, each once: position, ts, end, and its columns

A mail whose sender's batch is done again is the same mail, under the same number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from watersmeet.kernel import TS
from watersmeet.plan.sites.semijoin.multiway.at_site import ASKED, COPIED, SENT, Mail, Posted
from watersmeet.plan.sites.semijoin.oneway.items import Item, Key, Member
from watersmeet.plan.sites.semijoin.oneway.messages import Expired, Flips, Message, Tuples, Values, Vectors
from watersmeet.plan.sites.semijoin.oneway.vectors import VectorUpdate
from watersmeet.spark.exchange.packed_chunk import decode, encode
from watersmeet.spark.sites.semijoin.rows import (
    KeyTypes,
    Row,
    canonical_values,
    gathered,
    keys_of,
    nested,
    one_value,
    value_array,
)

LANE, NUMBER, BODY = "lane", "number", "body"
FIRST_US, TUPLES, PRICED = "first_us", "tuples", "priced"
KINDS: tuple[type[Any], ...] = (Tuples, Values, Expired, Vectors, Flips)
FLOWS = (COPIED, ASKED, SENT)
_HEAD = ("copy", "to_source", "kind", "interval", "probe", "items", "values", "numbers")


@dataclass(frozen=True)
class Sides:
    """What the messages of each copy are about."""

    sources: Mapping[tuple[int, int], tuple[str, ...]]  # the inputs of a copy's probe, in order
    targets: Mapping[int, tuple[str, ...]]  # and those of its other side
    keys: Mapping[int, tuple[int, ...]]  # the attribute classes it joins by
    columns: Mapping[str, Mapping[int, str]]  # of each input, those of its join values
    classes: int
    interval_us: int

    def items_of(self, posted: Posted) -> tuple[str, ...]:
        probe = getattr(posted.message, "probe", 0)
        return self.targets[posted.copy] if posted.to_source else self.sources[posted.copy, probe]


@dataclass(frozen=True)
class Parts:
    """What a message consists of."""

    items: Sequence[Item] = ()
    values: Sequence[Key] = ()
    numbers: Sequence[int] = ()


def parts_of(message: Message) -> Parts:
    """A message taken apart."""
    match message:
        case Tuples():
            return Parts(message.items, numbers=_flat(message.ended))
        case Values():
            return Parts(values=message.values)
        case Expired():
            return Parts(numbers=[message.count, *_flat(message.ended)])
        case Flips():
            return Parts(numbers=message.bits)
        case Vectors():
            update = message.update
            if update is None:
                return Parts(numbers=[-1, *_flat(message.ended)])
            numbers = [len(update.gone), *update.gone, *_flat(message.ended)]
            return Parts(update.full, update.values, numbers)
    raise TypeError(f"no mail takes a {type(message).__name__}")


def put_together(kind: type[Any], interval: int, probe: int, parts: Parts) -> Message:
    """The message of these parts."""
    numbers = list(parts.numbers)
    if kind is Tuples:
        return Tuples(interval, parts.items, _pairs(numbers), probe)
    if kind is Values:
        return Values(interval, parts.values, probe)
    if kind is Expired:
        return Expired(interval, numbers[0], _pairs(numbers[1:]))
    if kind is Flips:
        return Flips(interval, tuple(numbers))
    gone, rest = numbers[0], numbers[1:]
    if gone < 0:
        return Vectors(interval, None, _pairs(rest))
    update = VectorUpdate(tuple(parts.values), None, tuple(rest[:gone]), tuple(parts.items))
    return Vectors(interval, update, _pairs(rest[gone:]))


def pack_mail(mail: Mail, sides: Sides, types: KeyTypes, lane: int, number: int) -> pa.RecordBatch:
    """A mail as a chunk."""
    head: dict[str, list[Any]] = {name: [] for name in (*_HEAD, "bytes")}
    items: list[Item] = []
    at: list[int] = []
    numbers: list[int] = []
    values: dict[int, list[Any]] = {}
    rows: dict[str, dict[Member, int]] = {}
    for posted in mail.posted:
        parts, message = parts_of(posted.message), posted.message
        counts = (len(parts.items), len(parts.values), len(parts.numbers))
        entry = (posted.copy, posted.to_source, KINDS.index(type(message)), message.interval)
        for name, value in zip(_HEAD, (*entry, getattr(message, "probe", 0), *counts), strict=True):
            head[name].append(int(value))
        head["bytes"].append(float(posted.bytes))
        items += parts.items
        numbers += parts.numbers
        for item in parts.items:
            for alias, member in zip(sides.items_of(posted), item.members, strict=True):
                known = rows.setdefault(alias, {})
                at.append(known.setdefault(member, len(known)))
        _add_values(values, sides.keys[posted.copy], parts.values)
    integers = {name: pa.array(head[name], pa.int64()) for name in _HEAD}
    columns: dict[str, pa.Array] = {
        "messages": _table({**integers, "bytes": pa.array(head["bytes"], pa.float64())}),
        "marks": _table(_marks(mail)),
        "items": _table(
            {
                name: pa.array([getattr(item, name) for item in items], pa.int64())
                for name in ("t", "end", "number")
            }
        ),
        "at": one_value(pa.array(at, pa.int64())),
        "numbers": one_value(pa.array(numbers, pa.int64())),
    }
    columns |= {f"keys {cls}": one_value(value_array(own, types[cls])) for cls, own in values.items()}
    columns |= {f"rows {alias}": nested(_member_rows(list(known))) for alias, known in rows.items()}
    body = pa.array([encode(pa.RecordBatch.from_pydict(columns))], pa.binary())
    first, last = _times(mail, sides)
    whole = {TS: last, FIRST_US: first, LANE: lane, NUMBER: number, TUPLES: len(items)}
    priced = pa.array([math.fsum(posted.bytes for posted in mail.posted)], pa.float64())
    integers = {name: pa.array([value], pa.int64()) for name, value in whole.items()}
    return pa.RecordBatch.from_pydict({**integers, PRICED: priced, BODY: body})


def open_mail(packed: bytes, sides: Sides, types: KeyTypes) -> Mail:
    """The mail in a chunk's body; learns the types of the join values in it."""
    body = decode(packed)
    posted = list(_messages(body, sides, types))
    marks = body.column("marks").flatten()
    kinds, copies, probes, ends = (marks.field(n).to_pylist() for n in range(4))
    flows = zip((FLOWS[kind] for kind in kinds), copies, probes, strict=True)
    return Mail(posted, dict(zip(flows, ends, strict=True)))


def _messages(body: pa.RecordBatch, sides: Sides, types: KeyTypes) -> Iterator[Posted]:
    """The messages of a mail, put together from what all of them have in common lists."""
    lists = {name: body.column(name).flatten() for name in body.schema.names}
    members = {
        name[5:]: _members(rows, name[5:], sides, types)
        for name, rows in lists.items()
        if name.startswith("rows ")
    }
    values = {int(name[5:]): own for name, own in lists.items() if name.startswith("keys ")}
    types |= {cls: own.type for cls, own in values.items()}
    keys = {cls: iter(canonical_values(own)) for cls, own in values.items()}
    items = zip(*(lists["items"].field(n).to_pylist() for n in range(3)), strict=True)
    at, numbers = (iter(lists[name].to_pylist()) for name in ("at", "numbers"))
    head = (lists["messages"].field(name).to_pylist() for name in (*_HEAD, "bytes"))
    for copy, to_source, kind, interval, probe, item_count, value_count, number_count, size in zip(
        *head, strict=True
    ):
        side = sides.targets[copy] if to_source else sides.sources[copy, probe]
        found = []
        for _ in range(item_count):
            t, end, number = next(items)
            found.append(Item(t, end, number, tuple([members[alias][next(at)] for alias in side])))
        classes = sides.keys[copy]
        own = [tuple([next(keys[cls]) for cls in classes]) for _ in range(value_count)]
        parts = Parts(
            found,
            own if len(classes) > 1 else [value for (value,) in own],
            [next(numbers) for _ in range(number_count)],
        )
        yield Posted(copy, bool(to_source), put_together(KINDS[kind], interval, probe, parts), size)


def _members(rows: pa.StructArray, alias: str, sides: Sides, types: KeyTypes) -> list[Member]:
    batch = pa.RecordBatch.from_struct_array(rows)
    times = [batch.column(n).to_pylist() for n in range(3)]
    own = batch.select(batch.schema.names[3:])
    return members_of(own, sides.columns[alias], sides.classes, types, times)


def members_of(
    batch: pa.RecordBatch,
    columns: Mapping[int, str],
    classes: int,
    types: KeyTypes,
    times: Sequence[Sequence[int]],
) -> list[Member]:
    """The members that are the rows of a batch, given positions, times and ends."""
    types |= {cls: batch.schema.field(name).type for cls, name in columns.items()}
    keys = keys_of(batch, columns, classes)
    return [
        Member(position, ts, end, own, Row(batch, n))
        for n, (position, ts, end, own) in enumerate(zip(*times, keys, strict=True))
    ]


def _member_rows(members: Sequence[Member]) -> pa.RecordBatch:
    own = gathered([member.payload for member in members])
    times = {
        name: pa.array([getattr(member, name) for member in members], pa.int64())
        for name in ("position", "ts", "end")
    }
    columns = [*times.values(), *own.columns]
    return pa.RecordBatch.from_arrays(columns, [*(f"#{name}" for name in times), *own.schema.names])


def _add_values(values: dict[int, list[Any]], classes: Sequence[int], keys: Sequence[Any]) -> None:
    for n, cls in enumerate(classes):
        if keys:
            values.setdefault(cls, []).extend(key[n] if len(classes) > 1 else key for key in keys)


def _marks(mail: Mail) -> dict[str, pa.Array]:
    flows = [(FLOWS.index(kind), copy, probe, mark) for (kind, copy, probe), mark in mail.marks.items()]
    names = ("kind", "copy", "probe", "mark")
    return {name: pa.array([flow[n] for flow in flows], pa.int64()) for n, name in enumerate(names)}


def _table(columns: Mapping[str, pa.Array]) -> pa.ListArray:
    return nested(pa.StructArray.from_arrays(list(columns.values()), list(columns)))


def _times(mail: Mail, sides: Sides) -> tuple[int | None, int | None]:
    intervals = [posted.message.interval for posted in mail.posted]
    if not intervals:
        return None, None
    return min(intervals) * sides.interval_us, (max(intervals) + 1) * sides.interval_us - 1


def _flat(ended: Sequence[tuple[int, int]]) -> list[int]:
    return [number for pair in ended for number in pair]


def _pairs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))
