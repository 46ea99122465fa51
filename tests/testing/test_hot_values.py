"""Hot values: spread, cooled, swapped, stopped and resumed, and every answer once."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.spark.pipelines import BATCH_S, LATENESS_S, QUERIES, SECOND_US
from tests.testing.running import bind, check, run_batches
from watersmeet.errors import WatersmeetError
from watersmeet.kernel import HotTable, HotValue
from watersmeet.kernel.columns.hashing import hash_column
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.testing import InProcessEngine, Setup

STREAMS = ("s1", "s2", "s3")
HOT = int(hash_column(pa.array([0]))[0])  # of the key 0
SETUP = Setup(hot_values=True, hot_min_rows=60)


def draw_batch(
    rng: random.Random, number: int, hot: dict[str, float], rows: int = 24, keys: int = 40
) -> MicroBatch:
    """Tuples of which a share, by stream, has the key 0; out of order within the lateness."""

    def one(share: float) -> Tuple:
        since = int((BATCH_S * number - LATENESS_S / 2) * SECOND_US)
        key = 0 if rng.random() < share else rng.randrange(1, keys)
        ts = rng.randrange(since, BATCH_S * (number + 1) * SECOND_US)
        return Tuple(ts, {"k": key, "v": rng.randrange(10)})

    return {name: [one(hot.get(name, 0.0)) for _ in range(rows)] for name in STREAMS}


def tables(engine: InProcessEngine) -> list[HotTable]:
    """The routing tables that are still there, in the order of their batches."""
    files = sorted(engine.folder.glob("routing/*/*.json"))
    return [HotTable.from_json(json.loads(file.read_text())) for file in files]


@pytest.mark.parametrize("direct_files", [False, True])
def test_a_value_heats_cools_and_heats_again_on_another_stream(direct_files: bool) -> None:
    rng = random.Random(1)
    phases = [{"s1": 0.8, "s2": 0.1, "s3": 0.1}] * 3 + [{}] * 4 + [{"s1": 0.1, "s2": 0.8, "s3": 0.1}] * 4
    batches = [draw_batch(rng, *each) for each in enumerate(phases)]
    seen: list[HotValue] = []

    def look(engine: InProcessEngine, number: int) -> None:
        seen.extend(line for table in tables(engine)[-1:] if (line := table.find(0, HOT)))

    query = bind(QUERIES["plain"])
    steps = run_batches(query, batches, replace(SETUP, direct_files=direct_files), flush=True, before=look)
    check(query, batches, steps, flush=True)
    assert list(dict.fromkeys((line.spread, line.cooling) for line in seen)) == [
        ("a", False),
        ("a", True),
        ("b", False),
    ]
    assert max(step.metrics["hot_values"] for step in steps) >= 1
    counted = sum(step.metrics[f"input_{alias}"] for step in steps for alias in "abc")
    assert counted == len(phases) * len(STREAMS) * 24, "copies are not counted"


def test_a_query_stopped_while_values_are_spread_goes_on_by_its_table() -> None:
    rng, query = random.Random(2), bind(QUERIES["plain"])
    hot = {"s1": 0.2, "s2": 0.7, "s3": 0.1}
    batches = [draw_batch(rng, n, hot) for n in range(8)]
    with InProcessEngine(query, SETUP) as engine:
        steps = [engine.step(batch) for batch in batches[:4]]
        table = tables(engine)[-1]
        line = table.find(0, HOT)
        assert line is not None
        assert (line.spread, line.cooling) == ("b", False)
        shutil.rmtree(engine.folder / "routing")
        engine.restart()
        with pytest.raises(WatersmeetError, match="has been put back: resume the query"):
            engine.step(batches[4])
        assert tables(engine) == [table]
        engine.restart()
        steps.append(engine.step(batches[4]))
        # No value may heat from here on, but this one still has to cool.
        engine.restart(replace(SETUP, may_heat=False))
        steps += [engine.step(batch) for batch in batches[5:]]
        steps.append(engine.end())
        assert all(line.cooling for line in tables(engine)[-1].values)
    check(query, batches, steps, flush=True)


@pytest.mark.parametrize("skew", [0.0, 0.9, 1.5])
def test_answers_are_the_oracles_at_any_skew(skew: float) -> None:
    rng, query = random.Random(3), bind(QUERIES["plain"])
    weights = [1 / n**skew for n in range(1, 41)]
    batches = [_skewed(rng, number, weights) for number in range(4)]
    steps = run_batches(query, batches, SETUP, flush=True)
    check(query, batches, steps, flush=True)
    if skew >= 1:
        assert any(step.metrics["hot_values"] for step in steps)


def _skewed(rng: random.Random, number: int, weights: Sequence[float]) -> MicroBatch:
    even = draw_batch(rng, number, {}, rows=40)
    keys = {name: rng.choices(range(40), weights, k=40) for name in STREAMS}
    return {
        name: [Tuple(t.ts, {**t.values, "k": key}) for t, key in zip(even[name], keys[name], strict=True)]
        for name in STREAMS
    }
