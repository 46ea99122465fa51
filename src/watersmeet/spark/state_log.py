"""A bucket's state in Spark's state store: an append-only log of immutable chunks, and one small head record.

Both live in one map: declaring a state variable costs milliseconds in every batch, as does every field of its
schema, and every call is a round trip between two processes.

The head names the chunks that count, carries the bucket's few numbers, the plan's fingerprint, and a token
that is new with every batch. The token tells a worker whether what it has cached is what the store holds; the
last few tokens tell whether what it has cached is at least an ancestor of it.
"""

from __future__ import annotations

import difflib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from watersmeet.errors import DataError
from watersmeet.kernel import Changes, PersistedChunk
from watersmeet.spark.wire import decode, encode

PIECE_BYTES = 2 << 20  # a state value of more than a few megabytes is slow to write and to read
TOKENS_KEPT = 32

_KEY = StructType([StructField("key", StringType())])
_VALUE = StructType([StructField("value", BinaryType())])
_HEAD_KEY = ("head",)


@dataclass(frozen=True)
class Head:
    """What the store holds: chunks as (section, number) -> pieces, numbers, tokens (newest last)."""

    fingerprint: str
    tokens: tuple[str, ...] = ()
    chunks: Mapping[tuple[str, int], int] | None = None
    snapshot: Mapping[str, Any] | None = None

    @property
    def token(self) -> str:
        return self.tokens[-1] if self.tokens else ""


class StateLog:
    """The log and the head of the bucket a stateful call is for."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._log = handle.getMapState("log", _KEY, _VALUE)

    def read_head(self, fingerprint: str) -> Head:
        """The head, refused if it was written by another plan."""
        stored = self._log.getValue(_HEAD_KEY)
        if stored is None:
            return Head(fingerprint)
        record = json.loads(bytes(stored[0]))
        if record["fingerprint"] != fingerprint:
            raise DataError(describe_change(record["fingerprint"], fingerprint))
        chunks = {(section, number): pieces for section, number, pieces in record["chunks"]}
        return Head(fingerprint, tuple(record["tokens"]), chunks, record["snapshot"])

    def read_chunk(self, section: str, number: int, pieces: int) -> PersistedChunk:
        """One chunk, put together from its pieces."""
        parts = []
        for piece in range(pieces):
            value = self._log.getValue(_key(section, number, piece))
            if value is None:
                raise DataError(f"the checkpoint lacks chunk {number} of {section}: it is damaged")
            parts.append(bytes(value[0]))
        return PersistedChunk(section, number, decode(b"".join(parts)))

    def write(self, head: Head, changes: Changes, snapshot: Mapping[str, Any]) -> Head:
        """Makes the store hold the changes; returns the new head."""
        chunks = dict(head.chunks or {})
        for chunk in changes.appended:
            blob = encode(chunk.batch)
            starts = range(0, len(blob), PIECE_BYTES)
            for piece, start in enumerate(starts):
                key = _key(chunk.section, chunk.number, piece)
                self._log.updateValue(key, (blob[start : start + PIECE_BYTES],))
            chunks[chunk.section, chunk.number] = len(starts)
        for section, number in changes.expired:
            for piece in range(chunks.pop((section, number))):
                self._log.removeKey(_key(section, number, piece))
        tokens = (*head.tokens[1 - TOKENS_KEPT :], secrets.token_hex(8))
        new = replace(head, tokens=tokens, chunks=chunks, snapshot=snapshot)
        self._log.updateValue(_HEAD_KEY, (_dump(new),))
        return new


def _key(section: str, number: int, piece: int) -> tuple[str]:
    return (f"{number}.{piece} {section}",)


def _dump(head: Head) -> bytes:
    chunks = [[*key, pieces] for key, pieces in (head.chunks or {}).items()]
    record = {
        "fingerprint": head.fingerprint,
        "tokens": head.tokens,
        "chunks": chunks,
        "snapshot": head.snapshot,
    }
    return json.dumps(record).encode()


def describe_change(old: str, new: str) -> str:
    """What differs between two plans' fingerprints, for a person."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "checkpoint", "query", lineterm="", n=0)
    shown = "\n".join(f"  {line}" for line in lines if not line.startswith("@@"))
    return (
        "the checkpoint was written by a different query; its state does not fit this one:\n"
        f"{shown}\n  Give the changed query a new checkpoint directory, or restore the old query."
    )
