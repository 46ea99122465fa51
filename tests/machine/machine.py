"""The machine: a case under a schedule, one driver after the other, until one comes to the end.

After the last fault the machine runs to completion, and every sink must hold the oracle's answers, each once.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from tests.machine.driver import QueryDriver, StoppedError
from tests.machine.run_batch import Settings
from tests.machine.schedule import DriverCrash, Schedule
from tests.machine.world import World
from tests.testing.random_cases import SMALL, RandomCase, draw_case
from tests.testing.random_cases import VARIANTS as ALL_VARIANTS
from watersmeet.errors import DataError
from watersmeet.kernel import Shed, StateLimit
from watersmeet.oracle import oracle
from watersmeet.spark.tuning import DEFAULT

TUPLES = {2: 12, 3: 9, 4: 6}  # of each stream, by number of inputs
MOST_RUNS = 40


VARIANTS = (
    "rows",
    "files",
    "late columns",
    "hot values",
    "hot files",
    "numbered",
    "distinct",
    "aggregate",
    "pipeline",
    "rewrite",
)  # of the random cases; limits of memory come and go with the drivers


@dataclass(frozen=True)
class Outcome:
    """What the sinks hold beside what they should hold, by sink and query; and what happened on the way."""

    found: dict[tuple[str, str], Counter[object]]
    expected: dict[str, Counter[object]]
    counts: Counter[str]
    trace: tuple[str, ...]

    @property
    def difference(self) -> str:
        """What is lost and what is there twice; empty if all is well."""
        lines = []
        for (sink, query), found in self.found.items():
            lost, extra = self.expected[query] - found, found - self.expected[query]
            lines += [f"{sink}{query and ' of '}{query} lacks {lost}"] if lost else []
            lines += [f"{sink}{query and ' of '}{query} has beside {extra}"] if extra else []
        return "\n".join(lines)


def draw_scheduled_case(seed: int) -> RandomCase:
    """The case of a schedule; the variants take turns."""
    round_, variant = divmod(seed, len(VARIANTS))
    return draw_case(round_ * len(ALL_VARIANTS) + ALL_VARIANTS.index(VARIANTS[variant]), TUPLES)


def run_schedule(seed: int, most_faults: int | None = None) -> Outcome:
    """Runs the case and the schedule of a seed."""
    schedule, case = Schedule(seed, most_faults), draw_scheduled_case(seed)
    schedule.note(f"{case.variant}: {case.queries}")
    with tempfile.TemporaryDirectory(prefix="watersmeet-machine-") as folder:
        first = _settings(schedule, case)
        world = World.of(case, schedule, Path(folder), first.setup.workers)
        try:
            _run(world, case, first)
        except Exception as error:
            error.add_note("\n".join(schedule.trace))
            raise
        return _judge(world, case)


def _run(world: World, case: RandomCase, settings: Settings) -> None:
    schedule = world.schedule
    for run in range(MOST_RUNS):
        schedule.note(f"run {run}: {_describe(settings)}")
        driver = QueryDriver(world, case.query, settings, run, flush=case.flush)
        try:
            return driver.run()
        except DriverCrash:
            pass
        except StoppedError:
            schedule.note("the driver is stopped")
        except DataError as error:
            if "resume the query" not in str(error):
                raise
            schedule.count("refused batch", f"the batch is refused: {error}")
        settings = _settings(schedule, case)
        world.cluster.hire(settings.setup.workers)
    raise AssertionError(f"not at the end after {MOST_RUNS} runs")


def _settings(schedule: Schedule, case: RandomCase) -> Settings:
    """What a driver is started with: the checkpoint keeps what must not change."""
    limits = [None, None, StateLimit(10**9, Shed.LEAST), StateLimit(1000, Shed.NONE)]
    setup = replace(
        case.setup,
        partitions=schedule.choose([1, 2, 2, 3]),
        workers=schedule.choose([1, 2, 3]),
        map_tasks=schedule.choose([1, 2]),
        direct_files=case.setup.direct_files and schedule.chance(0.7),
        may_heat=schedule.chance(0.8),
        state_limit=schedule.choose(limits) if case.setup.routing == "shares" else None,
        tuning=schedule.choose([SMALL, SMALL, DEFAULT]),
    )
    return Settings(setup, schedule.choose([2, 100]))


def _describe(settings: Settings) -> str:
    setup, limit = settings.setup, settings.setup.state_limit
    parts = [
        f"{setup.partitions} partitions wanted",
        f"{setup.workers} workers",
        f"{settings.files_per_batch} files a batch",
        f"limit {limit.shed.value if limit else 'none'}",
        *(["direct files"] if setup.direct_files else []),
        *(["hot values"] if setup.hot_values and setup.may_heat else []),
    ]
    return ", ".join(parts)


def _judge(world: World, case: RandomCase) -> Outcome:
    batches = world.micro_batches()
    expected = {
        name: oracle.bag(oracle.run(query, batches, flush=case.flush).rows)
        for name, query in case.queries.items()
    }
    found = {
        (sink.name, name): oracle.bag(answer.row for answer in sink.content() if answer.query == name)
        for sink in world.sinks
        for name in case.queries
    }
    return Outcome(found, expected, world.schedule.counts, tuple(world.schedule.trace))
