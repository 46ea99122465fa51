"""Answers of many queries on their way out of a level: held for the watermark, sampled, distinct values once.

A query whose tail has a `Hold` gets its answers when the watermark of its own streams has passed them, or at
each tick of their lifetimes, as a query alone does (`kernel.output`). Tails that differ only in constants are
held together. Values of SELECT DISTINCT meet one level after the join, by the hash of all of them. Where
Spark has to compute them, after all levels, it gets what was present before along with the new answers.

    level 1: an answer is found, held until the watermark is past t -> level 2: its value is absent: out

State lies under names made of all that the rows depend on, and of nothing else: so it is found again when the
set of queries changes, and when streams have been declared with another lateness.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.layout import ANSWER_END, ANSWER_TS, ENDED
from watersmeet.kernel.multiquery.relation_store import concat_unlike
from watersmeet.kernel.multiquery.rows import QUERY, SharedCounts, SharedRows, Values
from watersmeet.kernel.output.distinct import DistinctValues
from watersmeet.kernel.output.held_answers import AnswerDelay, AnswerSampler, HeldAnswers
from watersmeet.kernel.state.chunks import HoldBuffer, PersistedChunk
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning
from watersmeet.query import BEGINNING
from watersmeet.query.byte_size import split_evenly
from watersmeet.query.shared_dataflow import Hold, SharedDataflow, TailTemplate

Bounds = Mapping[str, int]  # how far each stream has come, or set of streams
KeepRows = Callable[[pa.RecordBatch], pa.RecordBatch]

_HELD, _VALUES, _PRESENT = "#held", "#values", "#present"  # no relation's name starts so


class _Keeping(Protocol):
    buffer: HoldBuffer


class HeldTails:
    """What the queries that end at one level hold back, and the values of those that ended one before."""

    def __init__(self, dataflow: SharedDataflow, level: int, tuning: Tuning = DEFAULT_TUNING) -> None:
        self._held: dict[TailTemplate, HeldAnswers] = {}
        self._values: dict[str, DistinctValues] = {}
        self._templates: dict[str, TailTemplate] = {}  # of the values
        levels = {join.name: join.level for join in dataflow.joins}
        waiting = {tail.template: tail.hold for tail in dataflow.tails if tail.hold is not None}
        for template, hold in waiting.items():
            at = levels[template.join]
            if at == level:
                self._held[template] = _held(template, hold, tuning)
                if hold.repeats:
                    name = _present_name(template)
                    times = (ANSWER_TS,) if hold.by_time else ()
                    self._values[name] = DistinctValues((QUERY, *template.payload, *times), section=name)
            elif template.has_values and at + 1 == level:
                name = values_name(template)
                columns = (QUERY, *(column for column, _ in template.outputs or ()))
                self._values[name] = DistinctValues(columns, section=name)
                self._templates[name] = template
        self._level = level
        self._numbers = {tail.number for tail in dataflow.tails}

    def take(self, rows: SharedRows) -> bool:
        """Keeps answers that wait; False if these do not."""
        if not isinstance(rows.target, TailTemplate) or rows.target not in self._held:
            return False
        for batch in rows.table.combine_chunks().to_batches():
            self._held[rows.target].buffer.add(batch)
        return True

    def release(self, before: Bounds, after: Bounds, counts: SharedCounts) -> Iterator[SharedRows]:
        """What leaves as the streams come this far; the iterator must be exhausted."""
        for template, held in self._held.items():
            held.watermark = _watermark(before, template)
            released = held.release(_watermark(after, template))
            if template.hold is not None and template.hold.repeats:
                released = self._with_present(template, held.watermark, released, counts)
            for batch in released:
                table = pa.Table.from_batches([batch])
                if template.has_values:
                    yield SharedRows(Values(values_name(template), self._level + 1), table)
                else:
                    if ENDED not in batch.schema.names or not batch.column(ENDED)[0].as_py():
                        counts.count_answers(np.asarray(batch.column(QUERY)))
                    yield SharedRows(template, table)

    def _with_present(
        self, template: TailTemplate, since: int, released: Iterable[pa.RecordBatch], counts: SharedCounts
    ) -> Iterator[pa.RecordBatch]:
        """What was present since before the new answers, by all that values are made of; then these."""
        values, fresh = self._values[_present_name(template)], list(released)
        present = values.present(since)
        if present is not None:
            if ANSWER_TS not in present.schema.names:  # it makes no difference to the values
                present = present.append_column(ANSWER_TS, pa.array(np.full(present.num_rows, since)))
            names = [QUERY, *template.payload, ANSWER_TS, ANSWER_END]
            yield _marked(present.select(names), has_ended=True)
        for batch in fresh:
            remembered = values.admit(batch)
            counts.left_out += values.left_out
            if remembered.num_rows:
                yield _marked(remembered, has_ended=False)

    def appear(
        self, new: Mapping[str, Sequence[pa.RecordBatch]], counts: SharedCounts
    ) -> Iterator[SharedRows]:
        """Of the values that have come to this level, those that appear."""
        for name, values in self._values.items():
            if name not in new:
                continue
            answers = values.step(concat_unlike([batch for batch in new[name] if batch.num_rows]))
            counts.left_out += values.left_out
            if answers.num_rows:
                counts.count_answers(np.asarray(answers.column(QUERY)))
                table = pa.Table.from_batches([answers]).drop_columns([ANSWER_END])
                yield SharedRows(self._templates[name], table)

    def for_queries(self, dataflow: SharedDataflow, tuning: Tuning) -> HeldTails:
        """The same for the queries of another dataflow: what only others need is forgotten."""
        changed = HeldTails(dataflow, self._level, tuning)
        numbers = pa.array(sorted(changed._numbers), pa.int32())
        keep = _only(numbers) if self._holds_others(changed._numbers) else None
        for template, held in self._held.items():
            if template in changed._held:
                changed._held[template] = held
                if keep is not None:
                    held.buffer.rewrite(keep)
        for name, values in self._values.items():
            if name in changed._values:
                changed._values[name] = values
                if keep is not None:
                    values.keep_only(keep)
        return changed

    def _holds_others(self, numbers: set[int]) -> bool:
        parts = (batch.column(QUERY) for one in self._keeping() for batch in one.buffer.batches())
        return any(not numbers.issuperset(pc.unique(part).to_pylist()) for part in parts)

    def _keeping(self) -> list[_Keeping]:
        return [*self._held.values(), *self._values.values()]

    def persisted(self) -> list[PersistedChunk]:
        """The chunks that a state store must hold."""
        return [chunk for one in self._keeping() for chunk in one.buffer.persisted()]

    def snapshot(self) -> dict[str, Any]:
        """The few numbers to persist beside them, fit for JSON."""
        held = {one.buffer.section: one.buffer.next_number for one in self._held.values()}
        values = {name: one.snapshot() for name, one in self._values.items()}
        return ({"held": held} if held else {}) | ({"values": values} if values else {})

    def restore(self, snapshot: Mapping[str, Any], chunks: Sequence[PersistedChunk]) -> None:
        """Becomes what was persisted, as far as some query still needs it."""
        next_numbers = snapshot.get("held", {})
        for held in self._held.values():
            for chunk in chunks:
                if chunk.section == held.buffer.section:
                    held.buffer.add(chunk.wide, chunk.number)
            held.buffer.next_number = max(held.buffer.next_number, next_numbers.get(held.buffer.section, 0))
        for name, numbers in snapshot.get("values", {}).items():
            if name in self._values:
                own = [chunk for chunk in chunks if chunk.section == name]
                self._values[name] = self._values[name].restored(numbers, own)

    @property
    def rows(self) -> int:
        """Answers that are held, and values that are present."""
        return sum(one.buffer.rows for one in self._keeping())

    @property
    def nbytes(self) -> int:
        return self.held_nbytes + self.values_nbytes

    @property
    def held_nbytes(self) -> int:
        """Of answers that are held."""
        return sum(one.buffer.nbytes for one in self._held.values())

    @property
    def values_nbytes(self) -> int:
        """Of values that are present."""
        return sum(one.nbytes for one in self._values.values())

    def limit_values(self, nbytes: int | None) -> None:
        """Lets the values of each kind take no more than so many bytes: new ones are left out beyond that."""
        for values in self._values.values():
            values.limit_bytes = nbytes

    def thin(self, nbytes: int) -> int:
        """Leaves held answers of at most so many bytes, each query's kind as many; returns how many went."""
        parts = split_evenly({template: one.buffer.nbytes for template, one in self._held.items()}, nbytes)
        return sum(one.buffer.thin(int(parts[template])) for template, one in self._held.items())


def values_name(template: TailTemplate) -> str:
    """The name under which the values of a template are sent and kept."""
    return f"{_VALUES} {_digest(template)}"


def _present_name(template: TailTemplate) -> str:
    return f"{_PRESENT} {_digest(template)}"


def _marked(batch: pa.RecordBatch, *, has_ended: bool) -> pa.RecordBatch:
    return batch.append_column(ENDED, pa.array(np.full(batch.num_rows, has_ended)))


def _held(template: TailTemplate, hold: Hold, tuning: Tuning) -> HeldAnswers:
    section = f"{_HELD} {_digest(template)}"
    if hold.emit_every_us is None:
        return AnswerDelay(section)
    return AnswerSampler(section, hold.emit_every_us, tuning.block_bytes, hold.before_us)


@functools.lru_cache(maxsize=4096)
def _digest(template: TailTemplate) -> str:
    """Tells templates apart; not by their streams, since the join tells these, and their names may change.

    What a tail does not have is left out, so that its name stays when tails can have more.
    """
    described = _without_absent(asdict(replace(template, streams=())))
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]


def _without_absent(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_absent(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value not in (None, False, 0, ())
    }


def _watermark(bounds: Bounds, template: TailTemplate) -> int:
    return min(bounds.get(stream, BEGINNING) for stream in template.streams)


def _only(numbers: pa.Array) -> KeepRows:
    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        mask = pc.is_in(batch.column(QUERY), numbers)
        return batch if pc.all(mask, min_count=0).as_py() else batch.filter(mask)

    return keep
