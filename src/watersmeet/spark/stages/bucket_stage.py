"""What a worker does in a micro-batch, for one bucket: find it, read, step, answer, persist.

A stage finds its bucket in the worker's cache, or catches up from the chunk log of Spark's state store, feeds
it the batch, and writes what changed. The state store is the truth; the cache is only speed. All work on
tuples is vectorised in the kernel.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import pandas as pd
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle

from watersmeet.kernel import ChangeTracker, PersistedChunk
from watersmeet.plan.predecessor import Predecessor
from watersmeet.spark.exchange.codec import Codec, ForBucket
from watersmeet.spark.stages.state_log import Head, StateLog
from watersmeet.spark.stages.state_map import declare_map
from watersmeet.spark.tuning import Tuning
from watersmeet.spark.worker.allocator import hand_back
from watersmeet.spark.worker.bucket_state import BucketState, Snapshot, SteppedBucket
from watersmeet.spark.worker.frugal import keep_little
from watersmeet.spark.worker.task_facts import known_batch, query_id
from watersmeet.spark.worker.worker_cache import Entry, Key, worker_cache

Bucket = TypeVar("Bucket", bound=BucketState)
Message = TypeVar("Message", bound=ForBucket)
Arriving = TypeVar("Arriving", contravariant=True)
In = TypeVar("In")  # what a bucket is fed
Out = TypeVar("Out")  # what it brings forth


class KeptPlan(Protocol):
    """What keeping a bucket depends on."""

    @property
    def kept_as(self) -> str:
        """The name under which workers keep its buckets: another for all that a bucket is made by."""

    @property
    def query_set(self) -> str | None:
        """The set of queries that its buckets serve, where that may change; None: always the same."""

    @property
    def labels(self) -> tuple[int, ...]: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def cached_buckets(self) -> int | None: ...

    @property
    def is_limited(self) -> bool: ...

    @property
    def tuning(self) -> Tuning: ...


class BatchWork(Protocol[Arriving, In, Out]):
    """A stage's part in one micro-batch of one bucket."""

    @property
    def bucket(self) -> SteppedBucket[In, Out]: ...

    def read(self, messages: Iterator[Arriving]) -> Iterator[In]:
        """What the bucket is fed, in one piece or several."""

    def answer(self, found: Out) -> Iterator[pd.DataFrame]:
        """What the bucket has brought forth, as output of the stage."""

    def finish(self) -> Iterator[pd.DataFrame]:
        """The rest of the output, once the whole batch is stepped."""


class BucketStage(StatefulProcessor, Generic[Bucket, Message, In, Out]):
    """A stateful stage: Spark calls it once for each bucket and micro-batch."""

    plan: KeptPlan
    codec: Codec[Message]
    bucket_type: type[Bucket]
    predecessor: Predecessor | None = None  # whose state this stage may find, where its query has changed

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.open(declare_map(handle))

    def open(self, state: MapState) -> None:
        """Makes the stage ready, given its state variable."""
        self._state = StateLog(state, self.plan.tuning)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """One micro-batch of one bucket, step by step."""
        started = time.perf_counter()
        number = self.plan.labels.index(int(key[0]))
        head, entry = self._find(number)
        work = self.begin(entry.bucket, number, started)
        batches = work.read(self.codec.from_pandas(rows))  # messages in, files opened, tuples routed
        for found in map(work.bucket.step, batches):  # nothing holds on to a batch that has been stepped
            yield from work.answer(found)
        yield from work.finish()
        self._persist(number, head, entry)

    def close(self) -> None:
        """Nothing to close: state belongs to Spark, the cache to the worker."""

    @abstractmethod
    def begin(self, bucket: Bucket, number: int, started: float) -> BatchWork[Message, In, Out]:
        """This stage's part in a micro-batch of a bucket."""

    @abstractmethod
    def fresh(self) -> Bucket:
        """A bucket that has seen nothing."""

    @abstractmethod
    def restore(self, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> Bucket:
        """A bucket as it was persisted."""

    def catch_up(self, bucket: Bucket, snapshot: Snapshot, chunks: Iterable[PersistedChunk]) -> Bucket:
        """A bucket as it was persisted, given an earlier state of it, which may be used up."""
        return self.restore(snapshot, chunks)

    def _find(self, number: int) -> tuple[Head, Entry[Bucket]]:
        """The bucket as the state store has it, reading only what the worker does not hold already."""
        if self.plan.is_limited:
            keep_little()
        if self.plan.query_set is not None:
            worker_cache().forget_other_sets(query_id() or "", self.plan.fingerprint, self.plan.query_set)
        head = self._state.read_head(self.plan.fingerprint, self.predecessor)
        cached = worker_cache().take(self._key(number), self.bucket_type)
        if head.chunks is None or head.snapshot is None:
            return head, Entry("", self.fresh(), ChangeTracker())
        if cached is not None and cached.token == head.token:
            return head, cached
        if cached is None or cached.token not in head.tokens:
            bucket = self.restore(head.snapshot, self._state.read_chunks(head.counting))
        else:  # an ancestor: its chunks are the store's
            held = {(chunk.section, chunk.number): chunk for chunk in cached.bucket.persisted()}
            missing = {key: where for key, where in head.chunks.items() if key not in held}
            chunks = [*(held[key] for key in head.chunks if key in held), *self._state.read_chunks(missing)]
            bucket = self.catch_up(cached.bucket, head.snapshot, chunks)
        return head, Entry(head.token, bucket, ChangeTracker(head.chunks))

    def _persist(self, number: int, head: Head, entry: Entry[Bucket]) -> None:
        """Writes what changed to the state store, and keeps the bucket in the worker."""
        changes = entry.tracker.changes(entry.bucket.persisted())
        head = self._state.write(head, changes, entry.bucket.snapshot())
        nbytes, queries = entry.bucket.nbytes, self.plan.query_set
        kept = Entry(head.token, entry.bucket, entry.tracker, nbytes, known_batch(), queries)
        worker_cache().put(self._key(number), kept, self.plan.cached_buckets)
        if self.plan.is_limited:
            hand_back()

    def _key(self, number: int) -> Key:
        """Two plans may run in one streaming query, when their answers are united."""
        return (query_id() or "", self.plan.fingerprint, self.plan.kept_as, number)
