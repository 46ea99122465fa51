"""Spark's state store as a stage sees it, in memory: what an attempt writes counts once it is committed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

Key = tuple[Hashable, ...]
Contents = Mapping[tuple[str, Key], Any]  # by the name of a map and a key in it


class StateStore:
    """The committed state of one bucket of one stage, and what the attempt under way has written."""

    def __init__(self, committed: Contents | None = None) -> None:
        self._committed: dict[tuple[str, Key], Any] = dict(committed or {})
        self.reads: list[Key] = []  # of the attempt under way
        self._now = dict(self._committed)

    def begin(self) -> None:
        """A new attempt: it sees what is committed and nothing else."""
        self._now, self.reads = dict(self._committed), []

    def commit(self) -> None:
        self._committed = dict(self._now)

    @property
    def written(self) -> Contents:
        """What the attempt under way would commit."""
        return dict(self._now)

    @property
    def keys(self) -> list[Key]:
        """The committed keys."""
        return [key for _, key in self._committed]

    def getMapState(self, name: str, key: object, value: object) -> MapState:  # noqa: N802 - Spark's name
        return MapState(self, name)


class MapState:
    """A map of the store, with the methods of Spark's that stages use."""

    def __init__(self, store: StateStore, name: str) -> None:
        self._store, self._name = store, name

    def getValue(self, key: Key) -> Any:  # noqa: N802 - Spark's name
        self._store.reads.append(key)
        return self._store._now.get((self._name, key))

    def updateValue(self, key: Key, value: Any) -> None:  # noqa: N802 - Spark's name
        self._store._now[self._name, key] = value

    def removeKey(self, key: Key) -> None:  # noqa: N802 - Spark's name
        self._store._now.pop((self._name, key), None)

    def containsKey(self, key: Key) -> bool:  # noqa: N802 - Spark's name
        return (self._name, key) in self._store._now
