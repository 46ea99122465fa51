"""A query that makes the dataflow fail is stopped, and all others go on.

Whoever fills the sinks says which queries are to blame for a failure there. Where a batch fails before it has
answers, the suspects are the queries that join by something that Spark computes from the stream, such as
CAST(text AS BIGINT). The batch is then computed on trial, without its answers going anywhere: if it passes
without the suspects, they are tried in halves. If it fails all the same, no query is to blame, but a source,
the disk or the memory, and the server ends as ever.

A query that fails in its answers or its sink stays in the joins: once it is resumed it answers again as if it
had just been silent. One that fails before the joins leaves them, and is as a new one once it is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from watersmeet.errors import TransientError, WatersmeetError
from watersmeet.serve.registry.changes import SOON, BoundDataflow, ChangePlanner
from watersmeet.serve.registry.record import Outage, Registration, RegistryRecord
from watersmeet.spark.multiquery.culprits import Blame, Numbers, find_culprits
from watersmeet.spark.session.failures import RESUME


class TrialEngine(Protocol):
    """What can try a batch."""

    def trial(self, current: BoundDataflow) -> WatersmeetError | None: ...

    def newest(self) -> int: ...

    def committed(self) -> int: ...


def find_by_trial(current: BoundDataflow, planner: ChangePlanner, engine: TrialEngine) -> dict[int, Blame]:
    """The queries that make the batch under way fail before it has answers, whatever it fails with."""
    if engine.newest() == engine.committed():
        return {}
    suspects = planner.computes_keys(current, current.joined.keys())

    def attempt(some: Numbers) -> WatersmeetError | None:
        tried = planner.without(current, suspects - some)
        failure = engine.trial(tried)
        if some and isinstance(failure, TransientError) and attempt(frozenset()) is None:
            return engine.trial(tried)  # it may have been the machine, which can do without them again
        return failure

    if not suspects or attempt(frozenset()) is not None:
        return {}
    found = find_culprits(suspects, attempt)
    return {number: Blame(str(said), is_apart=True) for number, said in found.items()}


def stop_queries(
    current: BoundDataflow,
    planner: ChangePlanner,
    record: RegistryRecord,
    blamed: Mapping[int, Blame],
    batch: int,
    error: WatersmeetError,
) -> BoundDataflow:
    """The dataflow whose blamed queries are stopped from a batch on; raises the error where none can be.

    A sink that all queries fill stops the server instead: nothing could go on, and so nothing is missed. One
    that was dropped before the batch, and whose keys were still computed, is merely left out.
    """
    running = {query.number for query in record.queries if query.failure is None}
    gone = current.queries.keys() - {query.number for query in record.queries}
    silent = {query.number for query in record.queries if query.failure is not None and query.is_joined}
    if not (running | gone | silent) & blamed.keys():
        raise error
    if running and all(number in blamed and blamed[number].is_sink for number in running):
        raise error
    at = datetime.now(UTC).isoformat(timespec="seconds")
    queries = tuple(_stopped(query, blamed.get(query.number), batch, at) for query in record.queries)
    return planner.replan(current, replace(record, queries=queries))


def _stopped(query: Registration, blame: Blame | None, batch: int, at: str) -> Registration:
    """A query with what it is blamed for, if anything; one that is silent may still leave the joins."""
    if blame is None:
        return query
    reason = _reason(blame.reason)
    if query.failure is not None:
        return replace(query, outage=replace(query.failure, reason=reason, is_apart=blame.is_apart))
    outage = Outage(since=batch, reason=reason, at=at, is_apart=blame.is_apart)
    return replace(query, outage=outage)


def outage_of(error: WatersmeetError, batch: int) -> Outage:
    """The outage of a query beside the dataflow that has failed in a batch of its own."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return Outage(since=batch, reason=_reason(str(error)), at=at)


def _reason(said: str) -> str:
    """What a failure says, without what is for a whole run."""
    return said.replace(f", {RESUME}", "")


def first_batch(before: RegistryRecord, after: RegistryRecord) -> int:
    """The first batch that a change may begin with: one that failed for a query is not done again for it."""
    changed = {query.number for query in after.queries if SOON in (query.since, query.until)}
    changed |= {query.number for query in after.queries if query.outage and query.outage.until == SOON}
    failed = (query.failure.since + 1 for query in before.shared if query.failure and query.number in changed)
    return max(failed, default=0)
