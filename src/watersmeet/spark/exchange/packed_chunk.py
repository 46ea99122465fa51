"""A chunk on its way: an Arrow record batch, and the blob it travels as."""

from __future__ import annotations

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


def decode(blob: bytes) -> pa.RecordBatch:
    """The batch of a blob; its columns share the blob's memory."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_next_batch()
