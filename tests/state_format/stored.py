"""What a stage leaves in a state store, described so that a reviewer can compare it.

The store is a dictionary. Values are read here as the format says, not by the code that reads them in the
engine, so that the two have to agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.kernel import ChangeTracker, PersistedChunk
from watersmeet.spark.stages.state_log import StateLog
from watersmeet.spark.stages.state_map import declare_map
from watersmeet.spark.tuning import Tuning

SHOWN_ROWS = 10  # of a chunk; of larger ones only the columns


class Persisting(Protocol):
    """Any bucket."""

    def persisted(self) -> list[PersistedChunk]: ...

    def snapshot(self) -> Mapping[str, Any]: ...


class MemoryStore:
    """Spark's state store, as a stage sees it: one map of text to bytes."""

    def __init__(self) -> None:
        self.variables: dict[str, Any] = {}
        self.values: dict[str, bytes] = {}

    def getMapState(self, name: str, key: Any, value: Any) -> MemoryStore:  # noqa: N802 - Spark's name
        self.variables[name] = [key.simpleString(), value.simpleString()]
        return self

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:  # noqa: N802
        return (self.values[key[0]],) if key[0] in self.values else None

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:  # noqa: N802
        self.values[key[0]] = value[0]

    def removeKey(self, key: tuple[str]) -> None:  # noqa: N802
        del self.values[key[0]]


class Persisted:
    """A bucket's state in a store of its own; `keep` is called after each micro-batch."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.log = StateLog(declare_map(self.store), Tuning())  # type: ignore[arg-type]
        self._head = self.log.read_head("FINGERPRINT")
        self._tracker = ChangeTracker()

    def keep(self, bucket: Persisting) -> None:
        changes = self._tracker.changes(bucket.persisted())
        self._head = self.log.write(self._head, changes, bucket.snapshot())

    def describe(self) -> dict[str, Any]:
        """The variables, the keys, the head, and each chunk."""
        values = self.store.values
        head = json.loads(values["head"])
        tokens = head.pop("tokens")
        assert all(isinstance(token, str) and len(token) == 16 for token in tokens)
        return {
            "variables": self.store.variables,
            "keys": sorted(values),
            "head": {**head, "tokens": f"{len(tokens)} texts", "chunks": _locations(head["chunks"])},
            "chunks": {
                f"{section} {number}": _describe_chunk(_read(values, section, number, location))
                for section, number, location in head["chunks"]
            },
        }


def _locations(chunks: list[list[Any]]) -> list[list[Any]]:
    """Where chunks are, without the numbers of bytes, which are Arrow's."""
    return [
        [section, number, location if isinstance(location, int) else [location[0], "start", "length"]]
        for section, number, location in chunks
    ]


def _read(values: Mapping[str, bytes], section: str, number: int, location: int | Sequence[int]) -> bytes:
    """The blob of a chunk: so many values of its own, or (number, start, length) of a bundle."""
    if isinstance(location, int):
        return b"".join(values[f"{number}.{piece} {section}"] for piece in range(location))
    bundle, start, length = location
    return values[f"bundle {bundle}"][start : start + length]


def _describe_chunk(blob: bytes) -> dict[str, Any]:
    """A chunk as it is in its bytes, an Arrow stream of one batch."""
    with pa.ipc.open_stream(blob) as stream:
        (batch,) = list(stream)
    metadata = {key.decode(): value for key, value in (batch.schema.metadata or {}).items()}
    if "wide" in metadata:
        metadata["wide"] = _columns(pa.ipc.read_schema(pa.py_buffer(metadata["wide"])))
    if "lows" in metadata:
        metadata["lows"] = json.loads(metadata["lows"])
    described: dict[str, Any] = {"columns": _columns(batch.schema), "rows": batch.num_rows}
    if batch.num_rows <= SHOWN_ROWS:
        described["values"] = {
            name: [value if isinstance(value, int | float | None) else str(value) for value in values]
            for name, values in batch.to_pydict().items()
        }
    return described | ({"metadata": metadata} if metadata else {})


def _columns(schema: pa.Schema) -> list[str]:
    return [f"{field.name} {field.type}" for field in schema]
