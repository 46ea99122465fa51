"""A query that is changed when its driver has stopped or crashed: which answers each sink may hold then."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.machine.driver import QueryDriver
from tests.machine.machine import Bag, run_drivers, settings_of
from tests.machine.run_batch import Settings
from tests.machine.schedule import Schedule
from tests.machine.sinks import Answer
from tests.machine.world import World
from tests.testing.random_cases import draw_case
from tests.testing.test_changed_queries import change_query
from watersmeet.oracle import oracle
from watersmeet.plan.state_format import StateIdentity
from watersmeet.plan.take_over import Progress, TakeOver
from watersmeet.query import ColumnRef, Expr, Query
from watersmeet.query.window import RangeWindow
from watersmeet.spark.jobs.resume.sink_columns import Columns
from watersmeet.testing.cluster import QUERY_ID
from watersmeet.testing.dataflow import QueryDataflow

VARIANTS = ("rows", "files", "late columns", "hot values")
KINDS = ("SELECT", "condition", "filter", "window")
ONCE = ("files", "postgres")  # sinks that keep a record of batches


@dataclass
class Changes:
    """Lets every change through, and counts them."""

    schedule: Schedule

    def decide(
        self, found: TakeOver, old: StateIdentity, sunk: Columns, *, since: int, is_under_way: bool
    ) -> tuple[Progress, Columns]:
        what = "changed within a batch" if is_under_way else "changed between batches"
        self.schedule.count(what, f"the query changes from batch {since} on: {'; '.join(found.differences)}")
        return Progress(), ()


@dataclass
class Tries:
    """By which queries each batch was tried."""

    by_batch: dict[int, list[Query]] = field(default_factory=dict)

    def note(self, batch: int, query: Query) -> None:
        tried = self.by_batch.setdefault(batch, [])
        if query not in tried:
            tried.append(query)


class ChangingDriver(QueryDriver):
    """A driver that says which batches it has tried."""

    tries: Tries

    def _run_batch(self, dataflow: QueryDataflow) -> None:
        self.tries.note(self._world.log.newest, self._query)
        super()._run_batch(dataflow)


@dataclass(frozen=True)
class ChangedOutcome:
    """What was wrong in which batch of which sink, and whether there was anything that could be."""

    difference: str
    has_both: bool  # whether each of the two queries has given answers
    counts: Counter[str]
    trace: tuple[str, ...]


def run_changed(seed: int, most_faults: int | None = None) -> ChangedOutcome:
    """A case and a schedule of a seed: its first driver ends after some batches, or crashes before."""
    schedule, rng = Schedule(seed, most_faults), random.Random(seed)
    variant, kind = VARIANTS[seed % len(VARIANTS)], KINDS[seed // len(VARIANTS) % len(KINDS)]
    case = draw_case(seed, variant=variant)
    old, new = case.query, without_gap(case.query, kind, rng, windows=variant != "hot values")
    schedule.note(f"{old.pretty()}\nthen\n{new.pretty()}")
    tries, most = Tries(), rng.randint(2, 4)
    with tempfile.TemporaryDirectory(prefix="watersmeet-machine-") as folder:
        settings = settings_of(schedule, case.setup)
        world = World.of(old.streams, case.batches, schedule, Path(folder), settings.setup.workers)

        def run_driver(settings: Settings, run: int) -> None:
            is_old = run == 0 or (kind == "condition" and run < 6 and rng.random() < 0.4)
            driver = ChangingDriver(
                world,
                old if is_old else new,
                replace(settings, files_per_batch=1),
                run,
                flush=False,
                change=Changes(schedule),  # type: ignore[arg-type]
                most_batches=most if is_old else None,
            )
            driver.tries = tries
            driver.run()

        run_drivers(world, run_driver, settings, case.setup)
        return _judge(world, tries)


def _judge(world: World, tries: Tries) -> ChangedOutcome:
    """Of each batch a sink has the answers of one of the queries that have tried it."""
    batches, lines = world.micro_batches(), []
    given: list[Query] = []
    for batch, queries in tries.by_batch.items():
        due = {
            number: oracle.bag(oracle.run(query, batches[: batch + 1]).rows)
            - oracle.bag(oracle.run(query, batches[:batch]).rows)
            for number, query in enumerate(queries)
        }
        for sink in world.sinks:
            found = _of_batch(sink.content(), batch) if sink.name in ONCE else None
            if found is not None and found not in due.values():
                lines += [
                    f"batch {batch} in {sink.name} lacks {one - found}, has beside {found - one}"
                    for one in due.values()
                ]
        if len(queries) == 1 and due[0] and queries[0] not in given:
            given += queries
    return ChangedOutcome(
        "\n".join(lines), len(given) == 2, world.schedule.counts, tuple(world.schedule.trace)
    )


def _of_batch(answers: list[Answer], batch: int) -> Bag:
    return oracle.bag(answer.row for answer in answers if answer.id.startswith(f"{QUERY_ID}-{batch}-"))


def without_gap(query: Query, kind: str, rng: random.Random, *, windows: bool) -> Query:
    """A changed query of which nothing is missing."""
    inputs = query.inputs
    if kind == "filter":
        more = [Expr(f"{each.alias}.v < 5", (ColumnRef(each.alias, "v"),), "boolean") for each in inputs]
        some = [(each, one if rng.random() < 0.7 else None) for each, one in zip(inputs, more, strict=True)]
        inputs = tuple(
            each if one is None else replace(each, filters=(*each.filters, one)) for each, one in some
        )
    elif kind == "window" and windows:
        ranges = [each.window if isinstance(each.window, RangeWindow) else None for each in inputs]
        inputs = tuple(
            each if one is None else replace(each, window=RangeWindow(one.size // 2 + 1))
            for each, one in zip(inputs, ranges, strict=True)
        )
    else:
        return change_query(query, "condition" if kind == "condition" else "SELECT", rng)
    return replace(query, inputs=inputs)
