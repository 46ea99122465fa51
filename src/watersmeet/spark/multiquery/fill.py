"""Fills the sinks of a shared dataflow from a batch, and says which queries are to blame where that fails.

All queries of a sink are evaluated and written together. Where that fails, one of three is the cause:

- A query's own expression, such as a CAST of a text that is no number. Its answers are then evaluated by
  themselves, into nothing, and fail again.
- The sink. It is tried again for half a minute, as it may just be starting anew.
- What a query puts there, such as a text that is too long for its column. The queries are then written in
  halves: those that the sink takes are done (a batch may be written in parts), and one is left.

The batch fails in any case, and is done again without the queries that are to blame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from watersmeet.errors import DataError, TransientError, WatersmeetError
from watersmeet.query import Sink
from watersmeet.spark.multiquery.answers import ANSWER
from watersmeet.spark.multiquery.culprits import Blame, Numbers, find_culprits, find_refused
from watersmeet.spark.multiquery.sinks import NAME, takes_json
from watersmeet.spark.session.connectors import refusals_named
from watersmeet.spark.session.failures import explain_failure
from watersmeet.spark.sinks.answer_ids import Origin
from watersmeet.spark.sinks.batch_plans import BatchPlans
from watersmeet.spark.sinks.target import Batch, BatchSink

TAILED = 10_000  # answers of a batch, at most, that readers of tails get
SINK_PATIENCE_S = 30.0  # for a sink to come back
SINK_PAUSE_S = 5.0

_NUMBER = "_number"

OnAnswers = Callable[[int, Mapping[str, list[str]]], None]


class AnswersOfBatch(Protocol):
    """What makes rows of the answers of a batch: for many queries that share a dataflow, or for one alone."""

    def found(self, batch: DataFrame) -> set[str]:
        """The templates that the batch has answers of; everything is computed by then."""

    def rows(self, batch: DataFrame, found: set[str], numbers: Numbers, *, as_json: bool) -> DataFrame | None:
        """The answers of these queries, given the templates that occur; None if there are none."""

    def numbers(self, names: Container[str]) -> Iterable[int]:
        """The queries of these names."""


@dataclass(frozen=True)
class Filled:
    """A sink, and the numbers of the queries that fill it."""

    sink: Sink
    batches: BatchSink
    numbers: Numbers

    @property
    def as_json(self) -> bool:
        return takes_json(self.sink)


@dataclass(frozen=True, kw_only=True)
class Fill:
    """Fills all sinks from a batch; called by `foreachBatch`.

    `silent` are the batches [since, until) in which a query is not to answer. Queries that make the batch
    fail are added to `blamed`, unless it `is_stopped`: then everything fails.
    """

    answers: AnswersOfBatch
    plans: BatchPlans
    sinks: list[Filled]
    writer: str  # lasts as long as the checkpoint
    buckets: int | None
    on_answers: OnAnswers | None
    tailed: Callable[[], Iterable[str]]
    silent: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    blamed: dict[int, Blame] = field(default_factory=dict)
    is_stopped: Callable[[], bool] = lambda: False

    def __call__(self, blobs: DataFrame, batch: int) -> None:
        blobs.persist()
        try:
            found = self.answers.found(blobs)
            if found:
                _BatchFill(self, blobs, found, batch, self.plans.of(batch)).run()
        except (PySparkException, Py4JJavaError) as error:
            raise explain_failure(error) from error  # further up only the first of its causes would be left
        finally:
            blobs.unpersist()

    def answering(self, numbers: Iterable[int], batch: int) -> Numbers:
        """Those of the queries that are to answer in a batch."""
        silent = {number for number, (since, until) in self.silent.items() if since <= batch < until}
        return frozenset(number for number in numbers if number not in silent)


@dataclass(frozen=True)
class _BatchFill:
    fill: Fill
    blobs: DataFrame
    found: set[str]  # templates of answers
    batch: int
    plan: str

    def run(self) -> None:
        for position, filled in enumerate(self.fill.sinks):
            numbers = self.fill.answering(filled.numbers, self.batch)
            if not numbers:
                continue
            try:
                self._write(filled, numbers)
            except Exception as error:
                if self.fill.is_stopped():
                    raise
                self._handle(error, position, numbers)
        self._show()

    def _write(self, filled: Filled, numbers: Numbers) -> None:
        def rows(due: frozenset[str]) -> DataFrame | None:
            return self._rows(frozenset(map(int, due)), as_json=filled.as_json)

        with refusals_named(f"sink {filled.sink.name}", filled.sink.connector):
            filled.batches.write(
                Batch(
                    number=self.batch,
                    plan=self.plan,
                    origin=Origin(self.fill.writer, self.batch, self.fill.buckets),
                    queries=frozenset(map(str, numbers)),
                    answers=rows,
                )
            )

    def _rows(self, numbers: Numbers, *, as_json: bool) -> DataFrame | None:
        return self.fill.answers.rows(self.blobs, self.found, numbers, as_json=as_json)

    def _handle(self, error: Exception, position: int, numbers: Numbers) -> None:
        """Finds who is to blame for a sink that was not filled, and raises; nothing if it is filled now."""
        failure, blamed = explain_failure(error), self._find_culprits(position)
        filled = self.fill.sinks[position]
        if not numbers & blamed.keys():
            if isinstance(failure, TransientError):
                raise failure from error  # the whole batch is tried again
            if self._comes_back(filled, numbers):
                return
            for number in find_refused(numbers, partial(self._attempt, filled)):
                blamed[number] = Blame(str(failure), is_sink=True)
        self.fill.blamed.update(blamed)
        raise failure from error

    def _find_culprits(self, position: int) -> dict[int, Blame]:
        """The queries whose expressions fail by themselves, of all sinks that are left to fill.

        What they fail with does not matter, since a query can fail with any text. But where nothing at all
        can be evaluated, and that looks like the machine, such as a lack of memory, no query is to blame.
        """
        tried: set[int] = set()
        found: dict[int, WatersmeetError] = {}
        for filled in self.fill.sinks[position:]:
            own = self.fill.answering(filled.numbers, self.batch)
            tried |= own
            found |= find_culprits(own, partial(self._evaluate, filled))
        of_machine = [said for said in found.values() if type(said) is not WatersmeetError]
        if of_machine and position == 0 and found.keys() == tried:
            raise of_machine[0]
        return {number: Blame(str(said)) for number, said in found.items()}

    def _evaluate(self, filled: Filled, numbers: Numbers) -> WatersmeetError | None:
        """What the expressions of some queries fail with, if they do: what may pass by itself, twice."""
        rows = self._rows(numbers, as_json=filled.as_json)
        if rows is None:
            return None
        for is_last in (False, True):
            try:
                rows.write.format("noop").mode("overwrite").save()
                return None
            except Exception as error:
                failure = explain_failure(error)
                if self.fill.is_stopped():
                    raise failure from error
                if is_last or not isinstance(failure, TransientError):
                    return failure
            time.sleep(SINK_PAUSE_S)
        return None

    def _attempt(self, filled: Filled, numbers: Numbers) -> WatersmeetError | None:
        """What a sink refuses the answers of some queries with, if it does."""
        try:
            self._write(filled, numbers)
        except Exception as error:
            if self.fill.is_stopped():
                raise
            return explain_failure(error)
        return None

    def _comes_back(self, filled: Filled, numbers: Numbers) -> bool:
        """Whether the sink takes the batch after all, within a while."""
        deadline = time.monotonic() + SINK_PATIENCE_S
        while time.monotonic() + SINK_PAUSE_S < deadline:
            time.sleep(SINK_PAUSE_S)
            if self.fill.is_stopped():
                raise DataError("stopped while a sink was tried again")
            if self._attempt(filled, numbers) is None:
                return True
        return False

    def _show(self) -> None:
        """Hands the answers that readers of tails wait for to them."""
        fill = self.fill
        wanted = set(fill.tailed()) if fill.on_answers is not None else set()
        if fill.on_answers is None or not wanted:
            return
        numbers = fill.answering(fill.answers.numbers(wanted), self.batch)
        texts: dict[str, list[str]] = {}
        try:
            rows = self._rows(numbers, as_json=True)
            room = max(1, TAILED // len(wanted))
            for row in () if rows is None else some_of_each(rows, room).collect():
                texts.setdefault(row[NAME], []).append(row[ANSWER])
            fill.on_answers(self.batch, texts)
        except (PySparkException, Py4JJavaError, OSError):
            if fill.is_stopped():
                raise
            # The sinks have it all: whoever looks on beside them must not hold up the others.


def some_of_each(rows: DataFrame, count: int) -> DataFrame:
    """The answers of each query, at most so many of one, so that one with many leaves room for the others.

    Without their times, as Python has no years before 1 and after 9999.
    """
    number = F.row_number().over(Window.partitionBy(NAME).orderBy(F.lit(1)))
    return rows.withColumn(_NUMBER, number).where(F.col(_NUMBER) <= count).select(NAME, ANSWER)


@dataclass
class Trial:
    """Computes the answers of a batch and throws them away; called by `foreachBatch` in place of `Fill`."""

    has_passed: bool = False

    def __call__(self, blobs: DataFrame, batch: int) -> None:
        try:
            blobs.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            raise explain_failure(error) from error
        self.has_passed = True
        raise DataError(f"batch {batch} was done on trial: it is to be done again")
