"""Requests become a planned change of the shared dataflow, or refusals; nothing is written here.

A change is planned while the dataflow runs, so the micro-batch it begins with is not known yet: `SOON` stands
in for it until `BoundDataflow.settled` fills in the number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from watersmeet.errors import ConfigurationError, WatersmeetError
from watersmeet.plan.multiquery import Registered, plan_dataflow, why_beside
from watersmeet.plan.physical import plan_physical
from watersmeet.plan.statistics.statistics import Statistics
from watersmeet.query import NEVER, Column, Query
from watersmeet.query.join_tree import expressions, nodes
from watersmeet.query.shared_dataflow import SharedDataflow
from watersmeet.serve.registry.record import Registration, RegistryRecord, refuse_unknown
from watersmeet.serve.registry.requests import Drop, Request, Resume, Submit
from watersmeet.serve.registry.sink_fit import check_fit, has_own_columns
from watersmeet.spark.sources.clean_source import refuse_cleaning_beside
from watersmeet.spark.sources.source_paths import refuse_own_answers
from watersmeet.sql.query_names import check_name
from watersmeet.sql.syntax.declare import check_dead_letters

SOON = NEVER - 1

# The columns of the answers of a query of this name, given the conditions that Spark tests; refuses a query
# that Spark would refuse.
AnswerColumns = Callable[[Query, str, tuple[str, ...]], Sequence[Column]]


@dataclass(frozen=True)
class BoundDataflow:
    """A shared dataflow at one time: its record, its queries by number, and the plan of those that join.

    The queries beside it are among them.
    """

    record: RegistryRecord
    queries: Mapping[int, Query]
    dataflow: SharedDataflow

    @property
    def joined(self) -> dict[int, Query]:
        """The queries that take part in the joins."""
        return {tail.number: self.queries[tail.number] for tail in self.dataflow.tails}

    def settled(self, batch: int) -> BoundDataflow:
        """The same, with pending changes beginning at this micro-batch."""

        def settle(number: int) -> int:
            return batch if number == SOON else number

        queries = tuple(
            replace(
                query,
                since=settle(query.since),
                until=settle(query.until),
                outage=query.outage and replace(query.outage, until=settle(query.outage.until)),
            )
            for query in self.record.queries
        )
        tails = tuple(
            replace(tail, since=settle(tail.since), until=settle(tail.until)) for tail in self.dataflow.tails
        )
        dataflow = replace(self.dataflow, tails=tails)
        return replace(
            self, record=replace(self.record, queries=queries, dataflow=dataflow), dataflow=dataflow
        )


@dataclass(frozen=True)
class PlannedChange:
    """The dataflow after the accepted requests, and why the others are refused."""

    result: BoundDataflow
    accepted: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ChangePlanner:
    """Decides which requests are accepted, and plans the dataflow they lead to."""

    answer_columns: AnswerColumns
    statistics: Statistics | None = None

    def bind(self, record: RegistryRecord) -> BoundDataflow:
        """The dataflow of a record: its queries bound, and planned around the joins they have already."""
        bound = {query.number: record.bind(query.sql, f"query {query.name}") for query in record.queries}
        return self._plan(record, bound, record.dataflow)

    def plan(self, current: BoundDataflow, requests: Mapping[str, Request]) -> PlannedChange:
        """Accepts requests in order, each on top of those before it, as a whole or not at all."""
        draft = _Draft(self, current)
        accepted, refused = [], {}
        for request_id, request in requests.items():
            try:
                draft = draft.after(request)
                accepted.append(request_id)
            except WatersmeetError as error:
                refused[request_id] = str(error)
        if not accepted:
            return PlannedChange(current, (), refused)
        try:
            changed = self._plan(draft.record, draft.bound, current.dataflow)
        except WatersmeetError as error:  # although each could be planned by itself
            return PlannedChange(current, (), refused | dict.fromkeys(accepted, str(error)))
        return PlannedChange(changed, tuple(accepted), refused)

    def replan(self, current: BoundDataflow, record: RegistryRecord) -> BoundDataflow:
        """The dataflow of those queries that a later record still has: nothing else is computed for them."""
        bound = {query.number: current.queries[query.number] for query in record.queries}
        return self._plan(record, bound, current.dataflow)

    def without(self, current: BoundDataflow, numbers: Set[int]) -> BoundDataflow:
        """The dataflow as if these queries had never come."""
        left = tuple(query for query in current.record.queries if query.number not in numbers)
        return self.replan(current, replace(current.record, queries=left))

    def computes_keys(self, current: BoundDataflow, among: Set[int]) -> frozenset[int]:
        """Those of the queries that join by what Spark computes, which may fail before the joins."""
        record = current.record
        columns = {stream.name: {c.name for c in stream.columns} for stream in record.pipeline.streams}

        def computes(dataflow: SharedDataflow) -> bool:
            return any(key.name not in columns[feed.stream] for feed in dataflow.feeds for key in feed.keys)

        if not among or not computes(current.dataflow):
            return frozenset()
        there = [query for query in record.queries if query.number in among]
        alone = {
            query.number: plan_dataflow(
                [_registered(query, current.queries[query.number])], record.pipeline.streams, record.levels
            )
            for query in there
        }
        return frozenset(number for number, dataflow in alone.items() if computes(dataflow))

    def _plan(
        self, record: RegistryRecord, bound: Mapping[int, Query], kept: SharedDataflow | None
    ) -> BoundDataflow:
        registered = [_registered(query, bound[query.number]) for query in record.queries if query.is_joined]
        dataflow = plan_dataflow(registered, record.pipeline.streams, record.levels, self.statistics, kept)
        return BoundDataflow(replace(record, dataflow=dataflow), bound, dataflow)


@dataclass(frozen=True)
class _Draft:
    """A dataflow under change: requested queries are checked one by one, not yet planned together."""

    planner: ChangePlanner
    current: BoundDataflow
    added: Mapping[str, Registration] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()
    resumed: frozenset[int] = frozenset()
    own: Mapping[int, Query] = field(default_factory=dict)  # those added, by number
    columns: Mapping[str, tuple[str, Sequence[Column]]] = field(default_factory=dict)  # by sink

    @property
    def record(self) -> RegistryRecord:
        before = self.current.record
        queries = (*map(self._kept, before.queries), *self.added.values())
        return replace(before, queries=queries, next_number=before.next_number + self._numbers_given)

    def _kept(self, query: Registration) -> Registration:
        if query.number in self.dropped:
            return replace(query, until=SOON)
        if query.number not in self.resumed or query.failure is None:
            return query
        if query.beside is not None:
            return replace(query, outage=None)  # it has missed nothing, and goes on where it was
        if query.is_joined:
            return replace(query, outage=replace(query.failure, until=SOON))
        return replace(query, since=SOON, outage=None)

    @property
    def bound(self) -> Mapping[int, Query]:
        return {**self.current.queries, **self.own}

    @property
    def _numbers_given(self) -> int:
        return len(self.own)  # queries that were dropped again keep theirs

    @property
    def _names(self) -> dict[str, Registration]:
        """The queries that stay, by name."""
        staying = self.current.record.staying.values()
        return {q.name: q for q in staying if q.number not in self.dropped} | dict(self.added)

    def after(self, request: Request) -> _Draft:
        match request:
            case Submit():
                return (self._make_room(request) if request.replace else self)._submit(request)
            case Drop():
                return self._drop(request.names)
            case Resume():
                return self._resume(request)

    def _make_room(self, request: Submit) -> _Draft:
        """Drops the queries that others are to replace; case makes no difference."""
        wanted = {name.lower() for name, _ in request.queries}
        return self._drop([name for name in self._names if name.lower() in wanted])

    def _resume(self, request: Resume) -> _Draft:
        names, resumed = self._names, set(self.resumed)
        for name in request.names:
            if name not in names:
                raise refuse_unknown(name, names)
            if names[name].failure is None or names[name].number in resumed:
                raise ConfigurationError(f"query {name} has not failed: there is nothing to resume")
            resumed.add(names[name].number)
        return replace(self, resumed=frozenset(resumed))

    def _drop(self, unwanted: Sequence[str]) -> _Draft:
        names, added, dropped = self._names, dict(self.added), set(self.dropped)
        for name in unwanted:
            if name not in names:
                raise refuse_unknown(name, names)
            number = names.pop(name).number
            if added.pop(name, None) is None:
                dropped.add(number)
        return replace(self, added=added, dropped=frozenset(dropped))

    def _submit(self, request: Submit) -> _Draft:
        if not request.queries:
            raise ConfigurationError("there is no query in the request")
        taken = {name.lower() for name in self._names}
        added, own, columns = dict(self.added), dict(self.own), dict(self.columns)
        for name, sql in request.queries:
            check_name(name)
            if name.lower() in taken:
                raise ConfigurationError(
                    f"there is a query {name} already: drop it first, submit with --replace, or choose "
                    "another name (case makes no difference)"
                )
            taken.add(name.lower())
            number = self.current.record.next_number + len(own)
            query = self.current.record.bind(sql, f"query {name}")
            added[name] = Registration(name=name, number=number, sql=sql, sink=query.sink, since=SOON)
            own[number] = query
            added[name] = replace(added[name], beside=why_beside(query))
            self._check(added[name], query, columns)
        return replace(self, added=added, own=own, columns=columns)

    def _check(
        self, registration: Registration, query: Query, columns: dict[str, tuple[str, Sequence[Column]]]
    ) -> None:
        """Refuses a query that the dataflow or Spark cannot run, or whose answers its sink cannot take."""
        record = self.current.record
        found = self._answer_columns(registration, query)
        sink = record.pipeline.sink(query.sink) if query.sink else None
        if sink is None:
            return
        check_dead_letters(record.statements.declarations, record.pipeline.sinks, [sink.name])
        refuse_own_answers(query.streams, sink, Path(record.file).parent)
        if has_own_columns(sink):
            beside = columns.get(sink.name) or self._beside(sink.name)
            check_fit(registration.name, found, sink, beside)
            columns.setdefault(sink.name, (registration.name, found))

    def _answer_columns(self, registration: Registration, query: Query) -> Sequence[Column]:
        """The columns of a query's answers; refuses a query that cannot run where it is to run."""
        record = self.current.record
        if registration.beside is None:
            alone = plan_dataflow([_registered(registration, query)], record.pipeline.streams, record.levels)
            return self.planner.answer_columns(query, registration.name, alone.tails[0].conditions)
        plan_physical(query, record.partitions, self.planner.statistics, routing=None)
        refuse_cleaning_beside(registration.name, query.streams, Path(record.file).parent)
        tested = [*query.residual, *(expressions(query.tree) if query.tree is not None else ())]
        tested += [each for item in query.inputs for each in item.filters]
        equal = [each for node in nodes(query.tree) for each in node.equalities] if query.tree else []
        keys = [side for each in equal for side in (each.left, each.right) if not side.is_column]
        conditions = (*(each.sql for each in tested), *(f"({key.sql}) IS NOT NULL" for key in keys))
        return self.planner.answer_columns(query, registration.name, conditions)

    def _beside(self, sink: str) -> tuple[str, Sequence[Column]] | None:
        """A query that fills the sink already, and its columns."""
        current = self.current
        joined = current.joined
        for registration in current.record.queries:
            runs = registration.number in joined or (registration.beside is not None and registration.stays)
            if runs and registration.sink == sink and registration.number not in self.dropped:
                query = current.queries[registration.number]
                return registration.name, self._answer_columns(registration, query)
        return None


def _registered(query: Registration, bound: Query) -> Registered:
    return Registered(query.name, query.number, bound, query.since, query.until)
