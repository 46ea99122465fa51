"""Buckets kept in the Python worker between batches: only speed, never truth.

Workers are reused from batch to batch but a bucket may move between them, so an entry is used as it is only
if its token is the state store's. An entry is taken out while a batch runs, so that a batch that fails
half-way leaves nothing behind. The cache is bounded in bytes; the entry used longest ago goes first.
"""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import ChangeTracker
from watersmeet.spark.worker.bucket_state import BucketState

Key = tuple[str, str, str, int]  # streaming query, fingerprint of the plan, stage, bucket

LIMIT_VARIABLE = "WATERSMEET_CACHE_BYTES"
DEFAULT_LIMIT_BYTES = 2 << 30


Bucket = TypeVar("Bucket", bound=BucketState)


@dataclass(frozen=True)
class Entry(Generic[Bucket]):
    """A bucket as it stood after the batch that wrote this token."""

    token: str
    bucket: Bucket
    tracker: ChangeTracker  # of what the state store holds
    nbytes: int = 0
    batch: int | None = None  # the micro-batch that it was used in
    queries: str | None = None  # the set of queries that it serves, where that may change


class WorkerCache:
    """Least-recently-used entries up to a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._entries: OrderedDict[Key, Entry[BucketState]] = OrderedDict()

    def take(self, key: Key, kind: type[Bucket]) -> Entry[Bucket] | None:
        """Removes and returns an entry with a bucket of this kind."""
        entry = self._entries.pop(key, None)
        return cast(Entry[Bucket], entry) if entry and isinstance(entry.bucket, kind) else None

    def put(self, key: Key, entry: Entry[Bucket], at_most: int | None = None) -> None:
        """Keeps an entry, unless it alone is more than the limit; and at most so many of its stage."""
        self._entries[key] = cast(Entry[BucketState], entry)
        alike = [other for other in self._entries if other[:-1] == key[:-1]]
        for other in alike[: len(alike) - at_most] if at_most is not None else ():
            del self._entries[other]
        while self._entries and self.nbytes > self.limit_bytes:
            self._entries.popitem(last=False)

    def forget_before(self, query: str, batch: int) -> None:
        """Drops entries of a query that were last used before a micro-batch."""
        for key, entry in [*self._entries.items()]:
            if key[0] == query and entry.batch is not None and entry.batch < batch:
                del self._entries[key]

    def forget_other_sets(self, query: str, plan: str, queries: str) -> None:
        """Drops entries of a streaming query's plan that serve another set of queries than it has now."""
        for key, entry in [*self._entries.items()]:
            if key[:2] == (query, plan) and entry.queries not in (None, queries):
                del self._entries[key]

    @property
    def nbytes(self) -> int:
        return sum(entry.nbytes for entry in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def worker_cache() -> WorkerCache:
    """The cache of this process, or the one that is lent to it."""
    return _lent[-1] if _lent else own_cache()


@functools.cache
def own_cache() -> WorkerCache:
    text = os.environ.get(LIMIT_VARIABLE, str(DEFAULT_LIMIT_BYTES))
    if not text.isdecimal():
        raise ConfigurationError(f"{LIMIT_VARIABLE} is {text!r}: write a whole number of bytes")
    return WorkerCache(int(text))


_lent: list[WorkerCache] = []


@contextmanager
def lend_cache(cache: WorkerCache) -> Iterator[None]:
    """While open, this process keeps its buckets in `cache`: so one process can play several workers."""
    _lent.append(cache)
    try:
        yield
    finally:
        _lent.pop()
