"""How many answers of a pipeline are left under a limit of memory over its levels, and how many it estimates.

    python benchmarks/shedding_levels.py

Runs in process, without Spark. Streams bring the same number of tuples every second, with values of which low
ones are more frequent; `found` is measured against a run without a limit.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from watersmeet.kernel import Shed, StateLimit
from watersmeet.query import Query
from watersmeet.sql import bind_query
from watersmeet.testing import InProcessEngine, Setup, declare

SECONDS, SEEDS = 8, 3
STREAMS = [declare(name, "x BIGINT, y BIGINT, v BIGINT, ts TIMESTAMP", event_time="ts") for name in "abcd"]
THREE = (
    "SELECT a.v AS av, b.v AS bv, c.v AS cv FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS], "
    "c [RANGE 4 SECONDS] WHERE a.x = b.x AND b.y = c.y"
)
FOUR = (
    "SELECT a.v AS av, b.v AS bv, c.v AS cv, d.v AS dv FROM a [RANGE 4 SECONDS], b [RANGE 3 SECONDS], "
    "c [TUMBLE 4 SECONDS], d [RANGE 2 SECONDS] WHERE a.x = b.x AND b.y = c.y AND c.x = d.x"
)


@dataclass(frozen=True)
class Workload:
    """Queries, and how many tuples of each stream come in a second, with how many values."""

    queries: Query | Mapping[str, Query]
    rows: int
    keys: int
    setup: Setup


@dataclass(frozen=True)
class Run:
    """What a run has found, and what it reports."""

    answers: Counter[tuple[str, object]]
    found: int
    missed: float
    peak_bytes: int

    @property
    def estimated(self) -> float:
        return self.found / (self.found + self.missed)


def run(workload: Workload) -> Run:
    """A second a batch; the seed is that of the setup."""
    rng, answers = random.Random(workload.setup.seed), Counter[tuple[str, object]]()
    found, missed, peak = 0, 0.0, 0
    with InProcessEngine(workload.queries, workload.setup) as engine:
        for second in range(SECONDS):
            batch = {stream.name: _tuples(rng, second, workload) for stream in engine.streams}
            step = engine.step(batch)
            for name, rows in step.by_query.items():
                answers.update((name, row) for row in rows)
            found += step.metrics.get("found", 0)
            missed += step.metrics.get("missed_milli", 0) / 1000
            peak = max(peak, step.metrics["memory_bytes"])
    return Run(answers, found, missed, peak)


def _tuples(rng: random.Random, second: int, workload: Workload) -> list[dict[str, int]]:
    times = sorted(rng.randrange(second * 10**6, (second + 1) * 10**6) for _ in range(workload.rows))

    def drawn() -> int:
        return int(rng.random() ** 1.5 * workload.keys)

    return [
        {"x": drawn(), "y": drawn(), "v": second * workload.rows + number, "ts": ts}
        for number, ts in enumerate(times)
    ]


def compare(text: str, rows: int, keys: int, share: float, shed: Shed) -> tuple[float, float]:
    """The share of answers found by a pipeline, and what it estimates; means over seeds."""
    true = told = 0.0
    for seed in range(SEEDS):
        setup = Setup(routing="pipeline", partitions=2, seed=seed)
        workload = Workload(bind_query(text, STREAMS), rows, keys, setup)
        whole = run(workload)
        limit = StateLimit(int(share * whole.peak_bytes), shed)
        part = run(replace(workload, setup=replace(setup, state_limit=limit)))
        assert part.peak_bytes <= limit.nbytes, "the limit holds after each step"
        assert not part.answers - whole.answers, "what is answered is right, and comes once"
        true += part.answers.total() / whole.answers.total() / SEEDS
        told += part.estimated / SEEDS
    return true, told


def main() -> None:
    """Prints a table for the decision page."""
    print("| | limit |" + "".join(f" `{shed.value}` found | estimated |" for shed in _POLICIES))
    print("| --- " * (2 + 2 * len(_POLICIES)) + "|")
    for name, text, rows, keys in (("three streams", THREE, 50, 80), ("four streams", FOUR, 30, 30)):
        for share in (0.1, 0.3, 0.6):
            numbers = [compare(text, rows, keys, share, shed) for shed in _POLICIES]
            shown = "".join(f" {true:.1%} | {told:.1%} |" for true, told in numbers)
            print(f"| {name} | {share:.0%} |{shown}", flush=True)


_POLICIES = (Shed.RANDOM, Shed.OLDEST, Shed.LEAST)

if __name__ == "__main__":
    main()
