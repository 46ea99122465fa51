"""Rows taken from chunks are those of all chunks, one after the other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.columns.groups import groups_of
from watersmeet.kernel.columns.narrow import narrowed
from watersmeet.kernel.state.chunk import Chunk, held_by, take_rows

WORDS = st.one_of(st.integers(0, 9), st.integers(-(2**63), 2**63 - 1))
ROW = st.tuples(WORDS, st.one_of(st.none(), WORDS), st.text(max_size=3), st.floats(allow_nan=False))
# Rows of a chunk, how many are missing before it, and whether it has the column that came later.
CHUNKS = st.lists(
    st.tuples(st.lists(ROW, min_size=1, max_size=12), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=6,
)
COLUMNS = ("word", "some", "text", "real", "instant", "later")


def laid_out(parts: list[tuple[list[tuple[int, int | None, str, float]], int, bool]]) -> list[Chunk]:
    chunks: list[Chunk] = []
    for rows, gap, has_later in parts:
        words, some, text, real = zip(*rows, strict=True)
        columns = {
            "word": pa.array(words, pa.int64()),
            "some": pa.array(some, pa.int64()),
            "text": pa.array(text),
            "real": pa.array(real),
            "instant": pa.array(words, pa.timestamp("us", tz="UTC")),
        }
        if has_later:
            columns["later"] = pa.array(words, pa.int64())
        start = gap + (chunks[-1].stop if chunks else 0)
        chunks.append(Chunk(len(chunks), start, narrowed(pa.record_batch(columns), 2), 0, 0, 0, 0))
    return chunks


@given(CHUNKS, st.data())
def test_rows_of_any_order_come_back(
    parts: list[tuple[list[tuple[int, int | None, str, float]], int, bool]], data: st.DataObject
) -> None:
    chunks = laid_out(parts)
    tables = [pa.Table.from_batches([chunk.batch]) for chunk in chunks]
    everything = pa.concat_tables(tables, promote_options="default")
    numbers = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in chunks])
    drawn = np.array(data.draw(st.lists(st.integers(0, len(numbers) - 1), min_size=1, max_size=40)))
    for chosen in (drawn, np.sort(drawn), np.arange(len(numbers))):
        expected = everything.take(pa.array(chosen))
        for name, column in zip(COLUMNS, take_rows(chunks, COLUMNS, numbers[chosen]), strict=True):
            if name == "instant":  # of any word: not all have a date
                assert column.view(pa.int64()).to_pylist() == expected["word"].to_pylist()
            elif name in expected.schema.names:
                assert column.to_pylist() == expected[name].to_pylist()
            else:
                assert column.null_count == len(chosen)


@given(CHUNKS)
def test_rows_between_chunks_are_not_held(
    parts: list[tuple[list[tuple[int, int | None, str, float]], int, bool]],
) -> None:
    chunks = laid_out(parts)
    known = {row for chunk in chunks for row in range(chunk.start, chunk.stop)}
    rows = np.arange(-2, chunks[-1].stop + 3)
    assert held_by(chunks, rows).tolist() == [row in known for row in rows]
    assert not held_by([], rows).any()


@given(st.lists(st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1, 1 << 40])), max_size=30))
def test_groups_are_the_rows_of_each_number(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    found = [(int(values[group][0]), np.arange(len(values))[group].tolist()) for group in groups_of(values)]
    expected = {
        number: [row for row, own in enumerate(numbers) if own == number] for number in sorted({*numbers})
    }
    assert found == list(expected.items())
