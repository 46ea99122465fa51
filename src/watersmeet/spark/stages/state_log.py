"""A bucket's state in Spark's state store: an append-only log of immutable chunks, and one small head record.

Both live in one map: declaring a state variable costs milliseconds in every batch, as does every field of its
schema, and every call is a round trip between two processes.

A chunk is a few values, or, where a batch has several small ones, a part of a value with others: a *bundle*,
which goes when the last of its chunks does.

The head names the chunks that count, carries the bucket's few numbers, the plan's fingerprint, and a token
that is new with every batch. The token tells a worker whether what it has cached is what the store holds; the
last few tokens tell whether what it has cached is at least an ancestor of it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.streaming.stateful_processor import MapState

from watersmeet.errors import DataError
from watersmeet.kernel import Changes, PersistedChunk
from watersmeet.kernel.columns import narrowed
from watersmeet.plan.predecessor import Predecessor
from watersmeet.spark.exchange.packed_chunk import Pieces, decode, encode_into
from watersmeet.spark.tuning import Tuning

HEAD = "head"  # the key of the head record


# So many values of its own; or a bundle, where the chunk starts in it, and its length.
ChunkLocation = int | tuple[int, int, int]


@dataclass(frozen=True)
class Head:
    """What the store holds: chunks as (section, number) -> location, numbers, tokens (newest last)."""

    fingerprint: str
    tokens: tuple[str, ...] = ()
    chunks: Mapping[tuple[str, int], ChunkLocation] | None = None
    snapshot: Mapping[str, Any] | None = None
    forgotten: frozenset[str] = frozenset()  # sections of which what is here does not count any more

    @property
    def counting(self) -> Mapping[tuple[str, int], ChunkLocation]:
        """The chunks that count."""
        return {key: where for key, where in (self.chunks or {}).items() if key[0] not in self.forgotten}

    @property
    def token(self) -> str:
        return self.tokens[-1] if self.tokens else ""


class StateLog:
    """The log and the head of the bucket a stateful call is for."""

    def __init__(self, log: MapState, tuning: Tuning) -> None:
        self._log = log
        self._tuning = tuning

    def read_head(self, fingerprint: str, before: Predecessor | None = None) -> Head:
        """The head, refused if it was written by another plan, save for those `before` this."""
        stored = self._log.getValue((HEAD,))
        if stored is None:
            return Head(fingerprint)
        record = json.loads(bytes(stored[0]))
        own = record["fingerprint"] == fingerprint
        forgotten = before.forgets(record["fingerprint"]) if before is not None else None
        if not own and forgotten is None:
            # Imported here, since only a refusal needs it: every start of a query loads this module anew.
            from watersmeet.plan.state_format import describe_change

            raise DataError(describe_change(record["fingerprint"], fingerprint))
        chunks: dict[tuple[str, int], ChunkLocation] = {
            (section, number): where if isinstance(where, int) else tuple(where)
            for section, number, where in record["chunks"]
        }
        if own or forgotten is None:
            return Head(fingerprint, tuple(record["tokens"]), chunks, record["snapshot"])
        # Without its tokens: what a worker may still hold of this query from earlier days is no ancestor.
        return Head(fingerprint, (), chunks, record["snapshot"], forgotten)

    def read_chunks(self, locations: Mapping[tuple[str, int], ChunkLocation]) -> Iterator[PersistedChunk]:
        """These chunks as they were written; a bundle is read once for all of its own."""
        bundles: dict[int, bytes] = {}
        for (section, number), location in locations.items():
            if isinstance(location, int):
                keys = [_key(section, number, piece) for piece in range(location)]
                blob = b"".join(self._value(key, section, number) for key in keys)
            else:
                bundle, start, length = location
                if bundle not in bundles:
                    bundles[bundle] = self._value(_bundle_key(bundle), section, number)
                blob = bundles[bundle][start : start + length]
            yield PersistedChunk(section, number, decode(blob))

    def _value(self, key: tuple[str], section: str, number: int) -> bytes:
        value = self._log.getValue(key)
        if value is None:
            raise DataError(f"the checkpoint lacks chunk {number} of {section}: it is damaged")
        return bytes(value[0])

    def write(self, head: Head, changes: Changes, snapshot: Mapping[str, Any]) -> Head:
        """Makes the store hold the changes; returns the new head."""
        before = dict(head.chunks or {})
        bundles = _bundles(before)
        chunks = before | self._append(changes, bundles)
        for section, number in changes.expired:
            location = chunks.pop((section, number))
            for piece in range(location if isinstance(location, int) else 0):
                self._log.removeKey(_key(section, number, piece))
        for bundle in bundles - _bundles(chunks):
            self._log.removeKey(_bundle_key(bundle))
        tokens = (*head.tokens[1 - self._tuning.tokens_kept :], secrets.token_hex(8))
        new = replace(head, tokens=tokens, chunks=chunks, snapshot=snapshot, forgotten=frozenset())
        self._log.updateValue((HEAD,), (_dump(new),))
        return new

    def _append(self, changes: Changes, taken: set[int]) -> dict[tuple[str, int], ChunkLocation]:
        """Writes new chunks, small ones together."""
        locations: dict[tuple[str, int], ChunkLocation] = {}
        most = self._tuning.state_value_bytes
        next_bundle = max(taken, default=-1) + 1
        bundle = bytearray()
        together = len(changes.appended) > 1
        small = self._tuning.small_chunk_bytes if together else 0
        for chunk in changes.appended:
            written, blob = self._write_pieces(chunk, most, small)
            if not written and together and len(blob) <= small:
                if len(bundle) + len(blob) > most:
                    self._log.updateValue(_bundle_key(next_bundle), (bytes(bundle),))
                    next_bundle, bundle = next_bundle + 1, bytearray()
                locations[chunk.section, chunk.number] = (next_bundle, len(bundle), len(blob))
                bundle += blob
                continue
            self._log.updateValue(_key(chunk.section, chunk.number, written), (blob,))
            locations[chunk.section, chunk.number] = written + 1
        if bundle:
            self._log.updateValue(_bundle_key(next_bundle), (bytes(bundle),))
        return locations

    def _write_pieces(self, chunk: PersistedChunk, most: int, small: int) -> tuple[int, bytes]:
        """Writes a chunk larger than `small` but for its last piece: how many pieces, and the last."""
        written = 0

        def write(piece: bytes) -> None:
            nonlocal written
            self._log.updateValue(_key(chunk.section, chunk.number, written), (piece,))
            written += 1

        pieces = Pieces(most, write, at_least=small)
        encode_into(pieces, narrowed(chunk.batch))
        return written, bytes(pieces.rest)


def _bundles(chunks: Mapping[tuple[str, int], ChunkLocation]) -> set[int]:
    return {location[0] for location in chunks.values() if not isinstance(location, int)}


def _bundle_key(bundle: int) -> tuple[str]:
    return (f"bundle {bundle}",)


def _key(section: str, number: int, piece: int) -> tuple[str]:
    return (f"{number}.{piece} {section}",)


def _dump(head: Head) -> bytes:
    chunks = [[*key, location] for key, location in (head.chunks or {}).items()]
    record = {
        "fingerprint": head.fingerprint,
        "tokens": head.tokens,
        "chunks": chunks,
        "snapshot": head.snapshot,
    }
    return json.dumps(record).encode()
