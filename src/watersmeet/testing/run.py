"""`run_query`: a query over scripted micro-batches, and its answers beside those of the oracle."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import Clock, MicroBatch, Row
from watersmeet.query import NO_LIMIT, Query, Stream, parse_duration
from watersmeet.sql import bind_query, parse_pipeline
from watersmeet.testing.answers import query_time
from watersmeet.testing.chain import ChainEngine
from watersmeet.testing.engine import Step
from watersmeet.testing.script import Batch, Written
from watersmeet.testing.setup import Setup

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Result:
    """What a query answered over all batches."""

    query: Query
    steps: tuple[Step, ...]
    batches: tuple[MicroBatch, ...]  # what arrived
    flushed: bool
    clock: Clock

    @property
    def rows(self) -> list[Row]:
        """The answers as the oracle has them: event times and answer_time in whole microseconds."""
        return [row for step in self.steps for row in step.answers]

    @property
    def answers(self) -> list[Row]:
        """The answers with instants as datetimes in UTC, in the order they came."""
        times = [query_time(self.query, output.expr) for output in self.query.select]
        return [
            tuple(
                _EPOCH + dt.timedelta(microseconds=value) if is_time and value is not None else value
                for value, is_time in zip(row, times, strict=True)
            )
            for row in self.rows
        ]

    @property
    def late(self) -> dict[str, int]:
        """How many tuples of each stream were dropped because they were late.

        Tuples that fail a filter or have no key never reach the join, and are not counted.
        """
        return self._counted("late")

    @property
    def ahead(self) -> dict[str, int]:
        """How many tuples of each stream were dropped because they were too far ahead of their batch."""
        return self._counted("ahead")

    def _counted(self, kind: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for item in self.query.inputs:
            counted = sum(step.metrics.get(f"{kind}_{item.alias}", 0) for step in self.steps)
            found[item.stream.name] = max(counted, found.get(item.stream.name, 0))
        return found

    @property
    def expected(self) -> list[Row]:
        """The oracle's answers over what arrived."""
        return oracle.run(self.query, self.batches, flush=self.flushed, clock=self.clock).rows

    def matches_oracle(self) -> bool:
        """Whether the answers are exactly the oracle's, as a bag."""
        return oracle.bag(self.rows) == oracle.bag(self.expected)


def declare(
    name: str,
    columns: str,
    *,
    event_time: str,
    event_time_unit: str | None = None,
    lateness: str = "0",
    idle_after: str | None = None,
    max_ahead: str = "1 day",
) -> Stream:
    """A stream for a test: its columns are written as in CREATE STREAM, `id BIGINT, ts TIMESTAMP`."""
    unit = f", event_time_unit = '{event_time_unit}'" if event_time_unit else ""
    text = f"CREATE STREAM {name} ({columns}) WITH (format = 'memory', event_time = '{event_time}'{unit})"
    (stream,) = parse_pipeline(text).streams
    return replace(
        stream,
        source=None,
        lateness_us=parse_duration(lateness),
        idle_after_us=None if idle_after is None else parse_duration(idle_after),
        max_ahead_us=None if max_ahead == NO_LIMIT else parse_duration(max_ahead),
    )


def run_query(
    sql: str,
    batches: Iterable[Batch | Mapping[str, Sequence[Written]]],
    *,
    streams: Iterable[Stream] = (),
    sink: str | None = None,
    flush: bool = False,
    setup: Setup | None = None,
    **settings: Any,
) -> Result:
    """Runs a query over micro-batches in process: real pack, stages and unpack, no JVM.

    `sql` is a SELECT over `streams`, or the text of a pipeline file with a query (`sink` says which, where it
    has several). A tuple is written as its values in the order of the stream's columns, or as a mapping; an
    event time is text (`12:00:00` is of 1 January 1970), a datetime or microseconds. With `flush` the end of
    the batches is the end of time. `settings` are those of `Setup`.
    """
    query = _find_query(sql, tuple(streams), sink)
    how = setup or Setup(**settings)
    with ChainEngine(query, how) as engine:
        steps = [engine.step(batch) for batch in batches]
        if flush:
            steps.append(engine.end())
        return Result(query, tuple(steps), tuple(engine.arrived(flush=flush)), flush, engine.clock)


def _find_query(sql: str, streams: tuple[Stream, ...], sink: str | None) -> Query:
    if streams:
        return bind_query(sql, streams)
    queries = parse_pipeline(sql).queries
    if sink is not None:
        queries = tuple(query for query in queries if (query.sink or "").lower() == sink.lower())
    if len(queries) != 1:
        wanted = f"into {sink}" if sink is not None else "in it"
        raise ConfigurationError(
            f"the pipeline has {len(queries)} queries {wanted}, and one is to be run: name its sink"
        )
    return queries[0]
