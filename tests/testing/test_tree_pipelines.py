"""Trees of joins without one key for all of them, as pipelines: answers are exactly the oracle's."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from tests.testing.outer_queries import condition, leaf, node, query, random_batches, random_tree
from tests.testing.random_cases import DISTURBANCES, SMALL
from tests.testing.test_random_trees import COUNT, TICK, check
from watersmeet.errors import ConfigurationError
from watersmeet.kernel import StateLimit
from watersmeet.oracle import oracle
from watersmeet.oracle.oracle import MicroBatch, Row
from watersmeet.plan.routing.tree_stages import StagedTree, cut_tree
from watersmeet.query import Aggregate, JoinKind, JoinNode, Query, range_us, rows, tumble_us
from watersmeet.spark.tuning import DEFAULT
from watersmeet.testing import InProcessEngine, Setup

pytestmark = pytest.mark.slow

CASES = 12
A, B, C, D = map(leaf, "abcd")
AB = node(JoinKind.LEFT, A, B, ("a.k", "b.k"))
TWO_KEYS = node(JoinKind.LEFT, AB, C, ("b.v", "c.v"))
PIPELINE = Setup(partitions=3, routing="pipeline")


@dataclass(frozen=True)
class Case:
    """A query whose tree takes two stages or more, and how it is run."""

    asked: Query
    batches: list[MicroBatch]
    setup: Setup
    disturbance: str
    flush: bool


def draw_case(seed: int) -> Case:
    """The case of a seed; some ask for DISTINCT or for groups."""
    rng = random.Random(seed)
    while True:
        aliases = "abcde"[: rng.choice([3, 3, 4, 5])]
        windows = {each: rng.choice([range_us, range_us, tumble_us])(rng.randint(3, 20)) for each in aliases}
        tree = random_tree(rng, list(aliases))
        if isinstance(tree, JoinNode):
            asked = query(tree, windows, rng.choice([0, 2, 5]))
            staged = cut_tree(asked)
            if isinstance(staged, StagedTree) and len(staged.stages) > 1:
                break
    values = asked.select[:-1]
    match rng.randrange(8):
        case 0:
            asked = replace(asked, select=values, distinct=True)
        case 1:
            group = Aggregate((values[0].expr,), rng.randint(1, 15))
            asked = replace(asked, select=(values[0], COUNT, TICK), aggregate=group)
    setup = Setup(
        partitions=rng.choice([2, 2, 3, 1]),
        workers=rng.choice([1, 2]),
        routing="pipeline",
        direct_files=rng.random() < 0.3,
        map_tasks=rng.choice([1, 2]),
        seed=seed,
        tuning=rng.choice([SMALL, DEFAULT]),
    )
    batches = random_batches(asked, seed, rng.choice([2, 3, 4]), {3: 10, 4: 6, 5: 5}[len(aliases)])
    return Case(asked, batches, setup, rng.choice(DISTURBANCES), rng.random() < 0.8)


def test_answers_are_the_oracles(long_mode: bool, pytestconfig: pytest.Config) -> None:
    chosen = pytestconfig.getoption("--case-seed")
    seeds = range(40 * CASES if long_mode else CASES) if chosen is None else [chosen]
    counts = []
    for seed in seeds:
        case = draw_case(seed)
        try:
            counts.append(check(case.asked, case.batches, case.setup, case.disturbance, flush=case.flush))
        except Exception as error:
            pytest.fail(f"--case-seed {seed}: {type(error).__name__}: {error}\n{case.asked.pretty()}")
    assert sum(count > 0 for count in counts) >= 0.7 * len(counts)


def _bag(asked: Query, batches: list[MicroBatch], setup: Setup) -> object:
    with InProcessEngine(asked, setup) as engine:
        steps = [engine.step(batch) for batch in batches]
        return oracle.bag([row for step in [*steps, engine.end()] for row in step.answers])


@pytest.mark.parametrize("upper", JoinKind)
@pytest.mark.parametrize(
    "lower",
    [
        JoinKind.LEFT,
        pytest.param(JoinKind.FULL, marks=pytest.mark.variant),
        pytest.param(JoinKind.ANTI, marks=pytest.mark.variant),
    ],
)
def test_every_pair_of_joins(lower: JoinKind, upper: JoinKind) -> None:
    on = [condition("a.v <= b.v", "a.v", "b.v")]
    tree = node(upper, node(lower, A, B, ("a.k", "b.k"), on=on), C, ("a.v", "c.k"))
    asked = query(tree, lateness_us=2)
    batches = random_batches(asked, seed=1, batches=3, tuples=15)
    expected = oracle.bag(oracle.run(asked, batches, flush=True).rows)
    assert _bag(asked, batches, PIPELINE) == expected
    assert expected


def test_a_block_of_inner_joins_by_two_keys() -> None:
    inner = node(JoinKind.INNER, node(JoinKind.INNER, A, B, ("a.k", "b.k")), C, ("b.v", "c.v"))
    asked = query(node(JoinKind.LEFT, D, inner, ("d.k", "c.k")), lateness_us=2)
    batches = random_batches(asked, seed=3, batches=3, tuples=15)
    expected = oracle.bag(oracle.run(asked, batches, flush=True).rows)
    assert _bag(asked, batches, PIPELINE) == expected
    assert any(row[0] is not None for row in expected)


def _steps(tree: JoinNode, *batches: dict[str, list[tuple[int | None, ...]]]) -> list[list[Row]]:
    """The answers of each batch; tuples are (k, v, ts) by alias."""
    with InProcessEngine(query(tree), PIPELINE) as engine:
        return [
            sorted(engine.step({f"s_{a}": own for a, own in batch.items()}).answers, key=str)
            for batch in batches
        ]


def test_a_late_row_of_one_stage_finds_its_partner_in_the_next() -> None:
    """The (a, NULL) of minute 0 is known at 11, when c of minute 5 has long come, and nearly left."""
    tree = node(JoinKind.LEFT, AB, C, ("a.v", "c.v"))
    found = _steps(
        tree,
        {"a": [(1, 10, 0)], "b": [(7, 70, 0)], "c": [(7, 10, 5)]},
        {"a": [(9, 90, 10)], "b": [(7, 71, 10)], "c": [(7, 80, 10)]},
        {"a": [(9, 91, 11)], "b": [(7, 72, 11)], "c": [(7, 81, 11)]},
    )
    assert found == [[], [], [(10, None, 10, 5)]]


def test_a_row_without_a_match_passes_all_stages_in_one_batch() -> None:
    found = _steps(
        TWO_KEYS,
        {"a": [(1, 10, 0)], "b": [(7, 70, 0)], "c": [(7, 11, 0)]},
        {"a": [(9, 90, 11)], "b": [(7, 71, 11)], "c": [(7, 80, 11)]},
    )
    assert found == [[], [(10, None, None, 0)]]


def test_a_late_tuple_is_late_in_the_stage_that_joins_it_and_counted_once() -> None:
    with InProcessEngine(query(TWO_KEYS), PIPELINE) as engine:
        engine.step({f"s_{alias}": [(1, 1, 20)] for alias in "abc"})
        found = engine.step({"s_c": [(1, 1, 19), (1, 1, 20)], "s_a": [(2, 2, 3)]})
    assert [found.metrics[f"late_{alias}"] for alias in "abc"] == [1, 0, 1]
    assert [found.metrics[f"input_{alias}"] for alias in "abc"] == [1, 0, 2]
    assert found.metrics["answers"] == 1
    assert found.answers == [(1, 1, 1, 20)]


def test_a_limit_of_memory_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="without --state-limit"):
        _bag(query(TWO_KEYS), [], replace(PIPELINE, state_limit=StateLimit(1 << 20)))


def test_under_windows_of_rows_one_bucket_does_it_all() -> None:
    asked = query(TWO_KEYS, {"a": rows(3)}, lateness_us=3)
    batches = random_batches(asked, seed=2, batches=3)
    expected = oracle.bag(oracle.run(asked, batches, flush=True).rows)
    assert _bag(asked, batches, Setup(partitions=3, routing=None)) == expected
