"""Buckets that a worker keeps: bounded in bytes and in number, never older than they can be of use."""

from __future__ import annotations

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import ChangeTracker, PersistedChunk
from watersmeet.spark.worker import worker_cache
from watersmeet.spark.worker.worker_cache import Entry, Key, WorkerCache


class Held:
    """A bucket that holds nothing."""

    nbytes = 0

    def persisted(self) -> list[PersistedChunk]:
        return []

    def snapshot(self) -> dict[str, int]:
        return {}


class OtherKind(Held):
    """One of another stage."""


def entry(nbytes: int = 5, batch: int | None = None) -> Entry[Held]:
    return Entry("token", Held(), ChangeTracker(), nbytes, batch)


def key(bucket: int, stage: str = "join", query: str = "q") -> Key:
    return (query, "plan", stage, bucket)


def test_the_entry_used_longest_ago_goes_first() -> None:
    cache = WorkerCache(limit_bytes=100)
    for number in range(3):
        cache.put(key(number), entry(40))
    assert cache.take(key(0), Held) is None
    assert len(cache) == 2
    one = cache.take(key(1), Held)
    assert one is not None
    cache.put(key(1), one)
    cache.put(key(3), entry(40))
    assert cache.take(key(2), Held) is None
    assert cache.take(key(1), Held) is not None
    cache.put(key(4), entry(101))
    assert len(cache) == 0
    assert cache.nbytes == 0


def test_a_bucket_of_another_kind_is_not_taken_for_the_one_asked_for() -> None:
    cache = WorkerCache(limit_bytes=100)
    cache.put(key(0), entry())
    assert cache.take(key(0), OtherKind) is None


def test_a_worker_keeps_only_its_share_of_a_limited_querys_buckets() -> None:
    cache = WorkerCache(10**9)
    for bucket in range(3):
        cache.put(key(bucket), entry(), 1)
    cache.put(key(0, "distinct"), entry())
    assert cache.take(key(1), Held) is None
    assert cache.take(key(2), Held) is not None
    assert cache.take(key(0, "distinct"), Held) is not None


def test_buckets_that_other_workers_have_stepped_since_are_forgotten() -> None:
    cache = WorkerCache(10**9)
    for bucket, batch in enumerate((4, 5, None)):
        cache.put(key(bucket), entry(batch=batch))
    cache.put(key(0, query="other"), entry(batch=1))
    cache.forget_before("q", 5)
    assert cache.take(key(0), Held) is None
    assert len(cache) == 3


def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(worker_cache.LIMIT_VARIABLE, "2g")
    worker_cache.own_cache.cache_clear()
    with pytest.raises(ConfigurationError, match="WATERSMEET_CACHE_BYTES is '2g'"):
        worker_cache.worker_cache()


def test_buckets_of_another_set_of_queries_go_and_all_others_stay() -> None:
    cache = WorkerCache(limit_bytes=100)
    for number, queries in enumerate(("old", "old", "new", None)):
        cache.put(key(number), Entry("token", Held(), ChangeTracker(), 5, queries=queries))
    cache.put(key(0, query="other"), Entry("token", Held(), ChangeTracker(), 5, queries="old"))
    cache.forget_other_sets("q", "plan", "new")
    assert [cache.take(key(number), Held) is not None for number in range(4)] == [False, False, True, True]
    assert cache.take(key(0, query="other"), Held) is not None
