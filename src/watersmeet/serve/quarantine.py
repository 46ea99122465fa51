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

from watersmeet.errors import ConfigurationError, TransientError, WatersmeetError
from watersmeet.serve.registry.changes import SOON, BoundDataflow, ChangePlanner
from watersmeet.serve.registry.record import Outage, RegistryRecord
from watersmeet.spark.multiquery.culprits import Blame, Numbers, find_culprits


class TrialEngine(Protocol):
    """What can try a batch."""

    def trial(self, current: BoundDataflow) -> WatersmeetError | None: ...

    def newest(self) -> int: ...

    def committed(self) -> int: ...


def find_by_trial(
    current: BoundDataflow, planner: ChangePlanner, engine: TrialEngine, error: WatersmeetError
) -> dict[int, Blame]:
    """The queries that make the batch under way fail before it has answers."""
    if isinstance(error, ConfigurationError | TransientError) or engine.newest() == engine.committed():
        return {}
    suspects = planner.computes_keys(current, current.joined.keys())

    def attempt(some: Numbers) -> WatersmeetError | None:
        return engine.trial(planner.without(current, suspects - some))

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

    A sink that all queries fill stops the server instead: nothing could go on, and so nothing is missed.
    """
    running = {query.number for query in record.queries if query.failure is None}
    if not running & blamed.keys():
        raise error
    if running <= blamed.keys() and all(blamed[number].is_sink for number in running):
        raise error
    at = datetime.now(UTC).isoformat(timespec="seconds")
    queries = tuple(
        replace(query, outage=Outage(since=batch, reason=found.reason, at=at, is_apart=found.is_apart))
        if (found := blamed.get(query.number)) is not None and query.failure is None
        else query
        for query in record.queries
    )
    return planner.replan(current, replace(record, queries=queries))


def first_batch(before: RegistryRecord, after: RegistryRecord) -> int:
    """The first batch that a change may begin with: one that failed for a query is not done again for it."""
    changed = {query.number for query in after.queries if SOON in (query.since, query.until)}
    changed |= {query.number for query in after.queries if query.outage and query.outage.until == SOON}
    failed = (
        query.failure.since + 1 for query in before.queries if query.failure and query.number in changed
    )
    return max(failed, default=0)
