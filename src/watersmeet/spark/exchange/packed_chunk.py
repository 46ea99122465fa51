"""A chunk on its way: an Arrow record batch, and the blob it travels as."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa


class PackedChunk:
    """Tuples that are encoded when they first travel and decoded when they are first looked at.

    So a chunk that goes to several buckets is encoded once, one that is only handed on is never decoded, and
    one that stays in its process is neither.
    """

    __slots__ = ("_batch", "_blob")

    def __init__(self, batch: pa.RecordBatch | None = None, blob: bytes | None = None) -> None:
        assert batch is not None or blob is not None
        self._batch = batch
        self._blob = blob

    @property
    def batch(self) -> pa.RecordBatch:
        if self._batch is None:
            assert self._blob is not None
            self._batch = decode(self._blob)
        return self._batch

    @property
    def blob(self) -> bytes:
        if self._blob is None:
            assert self._batch is not None
            self._blob = encode(self._batch)
        return self._blob

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    @property
    def nbytes(self) -> int:
        """What has arrived with it."""
        return len(self._blob) if self._blob is not None else int(self.batch.nbytes)


def encode(batch: pa.RecordBatch) -> bytes:
    """A batch as one self-describing blob."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


class Pieces(io.RawIOBase):
    """A file that hands on what is written to it in pieces of one size; `rest` is what is left in the end.

    A blob is never there as a whole. The first piece is handed on once more than `at_least` is there.
    """

    def __init__(self, size: int, hand_on: Callable[[bytes], None], at_least: int = 0) -> None:
        self.rest = bytearray()
        self._size, self._hand_on = size, hand_on
        self._most = max(size, at_least)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), self._size):
            self.rest += view[start : start + self._size]
            while len(self.rest) > self._most:
                self._most = self._size
                self._hand_on(bytes(self.rest[: self._size]))
                del self.rest[: self._size]
        return len(view)


def encode_into(pieces: Pieces, batch: pa.RecordBatch) -> None:
    """Writes the blob of a batch to a file, as `encode` makes it."""
    with pa.ipc.new_stream(pa.PythonFile(pieces, mode="w"), batch.schema) as writer:
        writer.write_batch(batch)


def decode(blob: bytes) -> pa.RecordBatch:
    """The batch of a blob; its columns share the blob's memory."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_next_batch()
