"""What is read of a state as live is what the oracle says may still be met, each tuple in one bucket."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.kernel.answered import answers_in
from tests.strategies import cases
from tests.testing.random_cases import SMALL
from tests.tree_strategies import tree_cases
from watersmeet.kernel.routing.grid import Grid
from watersmeet.oracle.arrivals import take_in
from watersmeet.oracle.evaluate import evaluate
from watersmeet.oracle.lifetimes import ends_of
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.plan.state_format import identity_from_json
from watersmeet.query import (
    Input,
    PartitionRowsWindow,
    Query,
    RangeWindow,
    RowsWindow,
    TumbleRowsWindow,
    TumbleWindow,
    UnboundedWindow,
    Window,
)
from watersmeet.spark.exchange.labels import bucket_labels
from watersmeet.spark.inspect.bucket_rows import event_times, read_bucket, rows_with_lives, watermark_of
from watersmeet.spark.inspect.sections import Holding, resolve, sections_of
from watersmeet.testing import InProcessEngine, Setup

OF_TIME: Sequence[type[Window]] = (RangeWindow, TumbleWindow, UnboundedWindow)
OF_ROWS: Sequence[type[Window]] = (PartitionRowsWindow, RowsWindow, TumbleRowsWindow, RangeWindow)
QUICK = [Phase.reuse, Phase.generate]  # shrinking takes minutes
Held = dict[tuple[Holding, str], Counter[int]]


def read_live(engine: InProcessEngine) -> tuple[Held, int | None]:
    """The event times of live tuples by input, as they are read from the stores; and the watermark."""
    states = {
        place: read_bucket({key[0]: value[0] for (_, key), value in store.written.items()})
        for place, store in engine.cluster.stores.items()
        if store.written
    }
    if not states:
        return {}, None
    identity = identity_from_json(json.loads(next(iter(states.values())).head.fingerprint))
    sections = sections_of(identity.state, None, {name for each in states.values() for name in each.sections})
    known = [watermark_of(each.snapshot) for each in states.values()]
    watermark = min(each for each in known if each is not None)
    grid, labels, found = Grid(identity.shares), bucket_labels(identity.partitions), Held()
    for (_, label), state in states.items():
        for name in state.sections.keys() & sections.keys():
            section = resolve(sections[name], state.columns(name))
            if section.axes is not None and not grid.is_home(labels.index(label), section.axes):
                continue
            for batch, is_live in rows_with_lives(name, section, state, watermark):
                times = event_times(batch)
                if times is not None:
                    own = found.setdefault((section.holds, section.of), Counter())
                    own.update(times[is_live].tolist())
    return found, watermark


def joins(query: Query, item: Input, tuple_: Tuple) -> bool:
    """Whether a tuple passes the filters and has all keys."""
    rows = {item.alias: {**tuple_.values, item.stream.event_time: tuple_.ts}}
    keys = [query.graph.classes[cls].of(item.alias) for cls in query.graph.classes_of(item.alias)]
    passes = all(evaluate(condition, rows) is True for condition in item.filters)
    return passes and all(key is not None and evaluate(key.expr, rows) is not None for key in keys)


def expected(
    query: Query, item: Input, tuples: Sequence[Tuple], watermark: int
) -> tuple[list[int], list[int]]:
    """By the definition: tuples of which the end is not past, and those that wait for the watermark."""
    waits = query.joins_delayed
    entered = [one for one in tuples if not waits or one.ts < watermark]
    live = [
        one.ts
        for one, end in ends_of(item, entered)
        if end > max(watermark, one.ts) and joins(query, item, one)
    ]
    # Filters come before windows of time, and after those that count rows.
    waiting = [
        one.ts
        for one in tuples
        if waits and one.ts >= watermark and (item.window.counts_rows or joins(query, item, one))
    ]
    has_stage_of_its_own = any(each.window.numbers_rows for each in query.inputs)
    return (live, waiting) if has_stage_of_its_own else (live + waiting, [])


def check(query: Query, batches: Sequence[MicroBatch], partitions: int) -> int:
    """Compares all inputs after the last batch; how many live tuples there were."""
    with InProcessEngine(query, Setup(partitions=partitions, tuning=SMALL)) as engine:
        for batch in batches:
            engine.step(batch)
        found, watermark = read_live(engine)
    came = take_in(query, batches)
    assert watermark in (None, came.watermark)
    for item in query.inputs:
        live, waiting = expected(query, item, came.accepted[item.stream.name], came.watermark)
        assert found.get((Holding.TUPLES, item.alias), Counter()) == Counter(live), item.alias
        assert found.get((Holding.WAITING, item.alias), Counter()) == Counter(waiting), item.alias
    return sum(own.total() for own in found.values())


@pytest.mark.parametrize("windows", [OF_TIME, OF_ROWS], ids=["of time", "of rows"])
def test_live_tuples_are_those_that_something_to_come_may_meet(
    windows: Sequence[type[Window]], examples: Callable[[int], settings]
) -> None:
    with answers_in(0.8) as looked:

        @given(
            cases(kinds=("plain",), windows=windows, max_inputs=4, key_expressions=True), st.integers(1, 4)
        )
        @settings(examples(25), phases=QUICK)
        def holds(case: tuple[Query, list[MicroBatch]], partitions: int) -> None:
            looked.count(range(check(*case, partitions)))

        holds()


def test_sides_of_outer_joins_are_read_as_the_inputs_they_are(examples: Callable[[int], settings]) -> None:
    with answers_in(0.8) as looked:

        @given(
            tree_cases(max_inputs=3, windows=(RangeWindow, TumbleWindow)),
            st.sampled_from(["shares", "pipeline"]),
        )
        @settings(examples(25), phases=QUICK)
        def holds(case: tuple[Query, list[MicroBatch]], routing: str) -> None:
            query, batches = case
            with InProcessEngine(query, Setup(partitions=2, routing=routing, tuning=SMALL)) as engine:
                for batch in batches:
                    engine.step(batch)
                found, _ = read_live(engine)
            aliases = {item.alias for item in query.inputs}
            inputs = {of for holds, of in found if holds is Holding.TUPLES}
            assert inputs <= aliases
            assert all(set(of.split(", ")) <= aliases for holds, of in found if holds is Holding.RESULTS)
            looked.count(inputs)

        holds()
