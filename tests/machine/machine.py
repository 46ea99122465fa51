"""The machine: a case under a schedule, one driver after the other, until one comes to the end.

After the last fault the machine runs to completion, and every sink must hold the oracle's answers, each once.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.machine.driver import QueryDriver, StoppedError
from tests.machine.run_batch import Settings
from tests.machine.schedule import DriverCrash, Schedule
from tests.machine.shared import SharedCase
from tests.machine.world import World
from tests.testing.random_cases import SMALL, RandomCase, draw_case
from tests.testing.random_cases import VARIANTS as ALL_VARIANTS
from watersmeet.errors import DataError
from watersmeet.kernel import Shed, StateLimit
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import Row
from watersmeet.spark.tuning import DEFAULT
from watersmeet.testing import Setup

SHARED = "shared"
# Those of the random cases, but for one; limits of memory come and go with the drivers.
VARIANTS = tuple(each for each in ALL_VARIANTS if each != "rewrite" and not each.startswith("limit"))
TUPLES = {2: 12, 3: 9, 4: 6}  # of each stream, by number of inputs
MOST_RUNS = 40
PARTIAL = "kafka"  # a sink that may hold a part of a batch

Bag = Counter[object]


@dataclass(frozen=True)
class Outcome:
    """What the sinks hold, by sink and query, beside the least and the most they may hold, by query."""

    found: dict[tuple[str, str], Bag]
    expected: dict[str, tuple[Bag, Bag]]
    counts: Counter[str]
    trace: tuple[str, ...]

    @property
    def has_answers(self) -> bool:
        return any(least for least, _ in self.expected.values())

    @property
    def difference(self) -> str:
        """What is lost and what is there twice; empty if all is well."""
        lines = []
        for (sink, query), found in self.found.items():
            least, most = self.expected[query]
            if sink != PARTIAL and found in (least, most):
                continue
            name = f"{sink}{' of ' if query else ''}{query}"
            lines += [f"{name} lacks {least - found}"] if least - found else []
            lines += [f"{name} has beside {found - most}"] if found - most else []
            if least <= found <= most and sink != PARTIAL:
                lines.append(f"{name} has a part of the last batch: {found - least} of {most - least}")
        return "\n".join(lines)


def run_schedule(seed: int, most_faults: int | None = None) -> Outcome:
    """Runs the case and the schedule of a seed; the variants of cases take turns."""
    schedule = Schedule(seed, most_faults)
    round_, variant = divmod(seed, len(VARIANTS))
    with tempfile.TemporaryDirectory(prefix="watersmeet-machine-") as folder:
        try:
            if VARIANTS[variant] == SHARED:
                return _run_shared(schedule, Path(folder))
            drawn = round_ * len(ALL_VARIANTS) + ALL_VARIANTS.index(VARIANTS[variant])
            return _run_query(schedule, Path(folder), draw_case(drawn, TUPLES))
        except Exception as error:
            error.add_note("\n".join(schedule.trace))
            raise


def _run_query(schedule: Schedule, folder: Path, case: RandomCase) -> Outcome:
    """One query by itself."""
    query = case.query
    schedule.note(f"{case.variant}{', then --flush' if case.flush else ''}\n{query.pretty()}")
    settings = settings_of(schedule, case.setup)
    world = World.of(query.streams, case.batches, schedule, folder, settings.setup.workers)
    run_drivers(
        world,
        lambda settings, run: QueryDriver(world, query, settings, run, flush=case.flush).run(),
        settings,
        case.setup,
    )
    rows = oracle.run(query, world.micro_batches(), flush=case.flush).rows
    return _judge(world, {"": (rows, rows)})


def _run_shared(schedule: Schedule, folder: Path) -> Outcome:
    """Many queries in one dataflow."""
    setup = Setup(seed=schedule.seed, direct_files=schedule.chance(0.5))
    settings = settings_of(schedule, setup)
    case = SharedCase.of(schedule, folder, settings)
    run_drivers(case.world, case.serve, settings, setup)
    return _judge(case.world, case.expected())


def run_drivers(
    world: World, run_driver: Callable[[Settings, int], None], settings: Settings, setup: Setup
) -> None:
    """Starts one driver after the other, until one has nothing left to do."""
    schedule = world.schedule
    for run in range(MOST_RUNS):
        schedule.note(f"run {run}: {_describe(settings)}")
        try:
            return run_driver(settings, run)
        except DriverCrash:
            pass
        except StoppedError:
            schedule.note("the driver is stopped")
        except DataError as error:
            if "resume the query" not in str(error) and "divides by zero" not in str(error):
                raise
            schedule.count("refused batch", f"the batch fails: {error}")
        settings = settings_of(schedule, setup)
        world.cluster.hire(settings.setup.workers)
    raise AssertionError(f"not at the end after {MOST_RUNS} runs")


def settings_of(schedule: Schedule, setup: Setup) -> Settings:
    """What a driver is started with: the checkpoint keeps what must not change."""
    limits = [None, None, StateLimit(10**9, Shed.LEAST), StateLimit(1000, Shed.NONE)]
    drawn = replace(
        setup,
        partitions=schedule.choose([1, 2, 2, 2, 3]),
        workers=schedule.choose([1, 2, 3]),
        map_tasks=schedule.choose([1, 1, 2]),
        direct_files=setup.direct_files and schedule.chance(0.7),
        may_heat=schedule.chance(0.8),
        state_limit=schedule.choose(limits) if setup.routing == "shares" else None,
        tuning=schedule.choose([SMALL, SMALL, DEFAULT]),
    )
    return Settings(drawn, schedule.choose([3, 100]))


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


def _judge(world: World, expected: dict[str, tuple[Iterable[Row], Iterable[Row]]]) -> Outcome:
    found = {
        (sink.name, query): oracle.bag(answer.row for answer in sink.content() if answer.query == query)
        for sink in world.sinks
        for query in expected
    }
    known = {query: (oracle.bag(least), oracle.bag(most)) for query, (least, most) in expected.items()}
    strangers = [answer for sink in world.sinks for answer in sink.content() if answer.query not in expected]
    assert not strangers, f"answers of queries that nobody registered: {strangers}"
    return Outcome(found, known, world.schedule.counts, tuple(world.schedule.trace))
