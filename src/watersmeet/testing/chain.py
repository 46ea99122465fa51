"""Queries that read the answers of others, in process: each in an engine of its own, logs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import TracebackType
from typing import Self

from watersmeet.errors import ConfigurationError
from watersmeet.oracle.oracle import Clock, MicroBatch, Tuple, answer_tuples, run
from watersmeet.query import BEGINNING, NEVER, Query, Stream
from watersmeet.spark.chains.log_sink import mark_of
from watersmeet.spark.jobs.chains import answer_delay_us
from watersmeet.testing.engine import InProcessEngine, Step
from watersmeet.testing.script import Batch, Written
from watersmeet.testing.setup import Setup


@dataclass
class Log:
    """What a query has answered, batch by batch, and how far each of its readers has come."""

    stream: Stream
    batches: list[tuple[list[Tuple], int]] = field(default_factory=list)  # tuples, and the mark after them

    def take(self, start: int, count: int) -> tuple[list[Tuple], int | None]:
        """The tuples of some batches, and the mark of the last one; None if there are none."""
        taken = self.batches[start : start + count]
        return [tuple_ for tuples, _ in taken for tuple_ in tuples], taken[-1][1] if taken else None


class ChainEngine:
    """A query and all whose answers it reads, run over scripted micro-batches.

    With `lag`, readers take as many batches of answers as it says, at a time, from none to all; without it, a
    reader takes in a batch what is answered in this batch.
    """

    def __init__(self, query: Query, setup: Setup | None = None, lag: Random | None = None) -> None:
        answers = {stream.name: stream for stream in query.answer_streams}
        queries = {name: stream.answers for name, stream in answers.items() if stream.answers is not None}
        self.queries: dict[str, Query] = {**queries, "": query}
        self.engines = {name: InProcessEngine(each, setup) for name, each in self.queries.items()}
        self.logs = {name: Log(stream) for name, stream in answers.items()}
        self._read: dict[tuple[str, str], int] = {}
        self._lag = lag

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The declared streams that any of the queries reads."""
        every = (stream for engine in self.engines.values() for stream in engine.streams)
        return tuple({each.name: each for each in every if each.answers is None}.values())

    def step(self, batch: Batch | Mapping[str, Sequence[Written]], now: int | str | None = None) -> Step:
        """Runs a micro-batch of every query, those first whose answers others read."""
        written = batch if isinstance(batch, Batch) else Batch(batch)
        if not self.logs:
            return self.engines[""].step(written, now)
        rows = {name.lower(): rows for name, rows in written.rows.items()}
        declared = [each.name for each in self.streams]
        for name in rows.keys() - {known.lower() for known in declared}:
            raise ConfigurationError(
                f"the batch has tuples of {name}, which is not a declared stream here: {', '.join(declared)}"
            )
        written = replace(written, rows=rows)
        steps = {name: self._step(name, written, now) for name in self.queries}
        return steps[""]

    def end(self) -> Step:
        """Ends the input of one query after the other: the answers of each come through its readers."""
        steps = {}
        for name, engine in self.engines.items():
            rest = self._step(name, Batch(), all_there_is=True).answers if engine.reads_answers else []
            last = engine.end()
            self._log(name, last, NEVER)
            steps[name] = Step({"": [*rest, *last.answers]}, last.metrics)
        return steps[""]

    def restart(self) -> None:
        """Stops all queries and resumes them."""
        for engine in self.engines.values():
            engine.restart()

    @property
    def clock(self) -> Clock:
        """The times of the batches of the query itself, and the marks that came with them."""
        return self.engines[""].clock

    def arrived(self, *, flush: bool) -> list[MicroBatch]:
        """What has arrived at the query itself, its tuples of answers as the oracle answers them.

        Tuples of answers are never late, so all of a stream come with the first batch.
        """
        rows: dict[str, list[MicroBatch]] = {}
        found: dict[str, list[Tuple]] = {}
        for name, engine in self.engines.items():
            own = {each.name: found[each.name] for each in engine.streams if each.answers is not None}
            came = [{k: v for k, v in batch.items() if k not in own} for batch in engine.arrived]
            rows[name] = [{**batch, **(own if number == 0 else {})} for number, batch in enumerate(came)]
            if name in self.logs:
                answered = run(self.queries[name], rows[name], flush, engine.clock).rows
                found[name] = answer_tuples(self.logs[name].stream, answered)
        return rows[""]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for engine in self.engines.values():
            engine.close()

    def _step(
        self, name: str, batch: Batch, now: int | str | None = None, *, all_there_is: bool = False
    ) -> Step:
        engine, rows, marks = self.engines[name], dict[str, Sequence[Written]](), dict[str, int]()
        for stream in engine.streams:
            if stream.answers is None:
                rows[stream.name] = batch.rows.get(stream.name.lower(), ())
                continue
            log, start = self.logs[stream.name], self._read.get((name, stream.name), 0)
            count = len(log.batches) - start
            if self._lag is not None and not all_there_is:
                count = self._lag.randint(0, count)
            rows[stream.name], mark = log.take(start, count)
            self._read[name, stream.name] = start + count
            if mark is not None:
                marks[stream.name] = mark
        step = engine.step(replace(batch, rows=rows, marks=marks), now)
        self._log(name, step, step.metrics.get("watermark_us"))
        return step

    def _log(self, name: str, step: Step, watermark: int | None) -> None:
        if name in self.logs:
            log = self.logs[name]
            before = log.batches[-1][1] if log.batches else BEGINNING
            mark = max(before, mark_of(watermark, answer_delay_us(self.queries[name])))
            log.batches.append((answer_tuples(log.stream, step.answers), mark))
