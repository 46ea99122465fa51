"""The contract by hand-worked examples: one promise of the semantics a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from watersmeet.oracle.oracle import Tuple, accept, answers, bag, emitted, run, watermark
from watersmeet.query import (
    BEGINNING,
    NEVER,
    UNBOUNDED,
    Aggregate,
    Attribute,
    AttributeClass,
    Column,
    ColumnRef,
    Expr,
    Input,
    JoinGraph,
    Output,
    Query,
    Stream,
    Window,
    column_expr,
    range_us,
    rows,
    tumble_rows,
    tumble_us,
)

NAN = float("nan")
MINUTE_US = 60_000_000


def stream(name: str, lateness_us: int = 0, key: str = "bigint") -> Stream:
    columns = (Column("k", key), Column("v", "bigint"), Column("ts", "timestamp"))
    return Stream(name, columns, event_time="ts", lateness_us=lateness_us)


def same_key(*inputs: Input, select: Sequence[Output] = ()) -> Query:
    """A join of all inputs on k that answers with every v, unless other columns are given."""
    aliases = tuple(item.alias for item in inputs)
    attributes = tuple(Attribute(alias, column_expr(alias, "k")) for alias in aliases)
    classes = (AttributeClass(attributes),) if len(inputs) > 1 else ()
    outputs = tuple(select) or tuple(Output(f"{alias}_v", column_expr(alias, "v")) for alias in aliases)
    return Query(inputs, JoinGraph(aliases, classes), outputs)


def pair(left: Window, right: Window) -> Query:
    return same_key(Input("a", stream("s1"), left), Input("b", stream("s2"), right))


def single(window: Window) -> Query:
    return same_key(Input("a", stream("s1"), window))


def at(ts: int, v: int | None = None, k: Any = 1) -> Tuple:
    return Tuple(ts, {"k": k, "v": v})


def lives_of(query: Query, *streams: Sequence[Tuple]) -> list[tuple[int, int]]:
    """When each answer is valid; for a single stream, when each tuple is inside its window."""
    found = answers(query, {f"s{n}": tuples for n, tuples in enumerate(streams, 1)})
    return [(answer.t, answer.end) for answer in found]


def joined(query: Query, *streams: Sequence[Tuple]) -> list[tuple[Any, ...]]:
    return emitted(query, {f"s{n}": tuples for n, tuples in enumerate(streams, 1)})


class TestWindows:
    def test_range_includes_its_edge(self) -> None:
        query = pair(range_us(10), UNBOUNDED)
        assert joined(query, [at(0, 1)], [at(10, 2)]) == [(1, 2)]
        assert joined(query, [at(0, 1)], [at(11, 2)]) == []

    def test_each_input_has_its_own_range(self) -> None:
        query = pair(range_us(10), range_us(2))
        assert joined(query, [at(0, 1)], [at(5, 2)]) == [(1, 2)]
        assert joined(query, [at(5, 1)], [at(0, 2)]) == []

    def test_tumble_is_aligned_to_the_epoch(self) -> None:
        query = pair(tumble_us(10), UNBOUNDED)
        assert joined(query, [at(10, 1)], [at(19, 2)]) == [(1, 2)]
        assert joined(query, [at(19, 1)], [at(20, 2)]) == []

    def test_tumble_floors_before_the_epoch_too(self) -> None:
        query = pair(tumble_us(10), UNBOUNDED)
        assert joined(query, [at(-10, 1)], [at(-1, 2)]) == [(1, 2)]
        assert joined(query, [at(-1, 1)], [at(0, 2)]) == []

    def test_rows_are_the_last_of_the_stream(self) -> None:
        assert lives_of(single(rows(2)), [at(1), at(5), at(9)]) == [(1, 9), (5, NEVER), (9, NEVER)]

    def test_rows_with_equal_ts_are_ordered_by_their_values_whatever_their_arrival(self) -> None:
        query = pair(rows(1), UNBOUNDED)
        tied = [at(5, None), at(5, 7), at(5, 3)]
        for arrival in (tied, tied[::-1]):
            assert joined(query, arrival, [at(5, 0)]) == [(7, 0)]

    def test_rows_count_tuples_that_the_filter_drops(self) -> None:
        query = pair(rows(1), UNBOUNDED)
        small = Expr("a.v < 5", (ColumnRef("a", "v"),))
        query = replace(query, inputs=(replace(query.inputs[0], filters=(small,)), query.inputs[1]))
        assert joined(query, [at(1, 3), at(2, 9)], [at(2, 0)]) == []
        assert joined(query, [at(1, 3), at(3, 9)], [at(2, 0)]) == [(3, 0)]

    def test_rows_count_tuples_that_have_no_partner(self) -> None:
        query = pair(rows(1), UNBOUNDED)
        assert joined(query, [at(1, 3), at(2, 4, k=None)], [at(2, 0)]) == []

    def test_a_full_group_of_rows_stays_the_newest_until_the_next_tuple(self) -> None:
        query = single(tumble_rows(2))
        assert lives_of(query, [at(1), at(3), at(8)]) == [(1, 8), (3, 8), (8, NEVER)]
        assert lives_of(query, [at(1), at(3)]) == [(1, NEVER), (3, NEVER)]

    def test_unbounded_never_ends(self) -> None:
        assert joined(pair(UNBOUNDED, range_us(1)), [at(0, 1)], [at(10**15, 2)]) == [(1, 2)]


class TestAnswers:
    def test_range_joins_equal_the_pairwise_rule(self) -> None:
        query = same_key(*(Input(a, stream(f"s{n}"), range_us(5 * n)) for n, a in enumerate("abc", 1)))
        moments = range(0, 20, 3)
        tuples = [at(ts, ts) for ts in moments]
        expected = [
            (a, b, c)
            for a in moments
            for b in moments
            for c in moments
            if max(b, c) - a <= 5 and max(a, c) - b <= 10 and max(a, b) - c <= 15
        ]
        assert bag(joined(query, tuples, tuples, tuples)) == bag(expected)

    def test_each_combination_answers_once_and_duplicates_are_separate_tuples(self) -> None:
        query = pair(range_us(10), range_us(10))
        assert joined(query, [at(0, 1), at(0, 1)], [at(0, 2), at(0, 2)]) == [(1, 2)] * 4

    def test_the_answer_time_is_the_largest_ts(self) -> None:
        clock = Output("answer_time", Expr("answer_time", uses_answer_time=True))
        query = replace(pair(range_us(10), range_us(10)), select=(clock,))
        assert joined(query, [at(3)], [at(8)]) == [(8,)]
        assert joined(query, [at(8)], [at(3)]) == [(8,)]

    def test_an_answer_is_valid_until_the_first_of_its_tuples_leaves(self) -> None:
        assert lives_of(pair(range_us(10), range_us(5)), [at(0)], [at(3)]) == [(3, 9)]

    @pytest.mark.parametrize(
        ("left", "right", "meet"),
        [
            (None, None, False),
            (None, 1, False),
            (NAN, NAN, True),
            (-0.0, 0.0, True),
            (1, 1.0, True),
            ("A", "a", False),
            ([1, 2], [1, 2], True),
            ([1, 2], [2, 1], False),
            ([None], [None], True),
        ],
    )
    def test_equality_is_sparks(self, left: Any, right: Any, meet: bool) -> None:
        found = joined(pair(UNBOUNDED, UNBOUNDED), [at(0, 1, k=left)], [at(0, 2, k=right)])
        assert found == ([(1, 2)] if meet else [])

    def test_an_attribute_may_be_an_expression(self) -> None:
        query = pair(UNBOUNDED, UNBOUNDED)
        lowered = Attribute("a", Expr("lower(a.k)", (ColumnRef("a", "k"),), "string"))
        cls = AttributeClass((lowered, Attribute("b", column_expr("b", "k"))), "string")
        query = replace(query, graph=JoinGraph(("a", "b"), (cls,)))
        assert joined(query, [at(0, 1, k="Host")], [at(0, 2, k="host")]) == [(1, 2)]

    def test_a_self_join_reads_the_stream_twice_and_meets_itself(self) -> None:
        source = stream("s1")
        query = same_key(Input("a", source, range_us(5)), Input("b", source, range_us(5)))
        assert bag(joined(query, [at(0, 1), at(4, 2)])) == bag([(1, 1), (1, 2), (2, 1), (2, 2)])

    def test_a_residual_that_is_unknown_is_not_met(self) -> None:
        order = Expr("a.v < b.v", (ColumnRef("a", "v"), ColumnRef("b", "v")))
        query = replace(pair(UNBOUNDED, UNBOUNDED), residual=(order,))
        assert joined(query, [at(0, 1), at(0, 5), at(0, None)], [at(0, 3)]) == [(1, 3)]

    def test_a_cycle_closes(self) -> None:
        columns = (Column("x", "bigint"), Column("y", "bigint"), Column("ts", "timestamp"))
        inputs = [Input(a, Stream(f"s{n}", columns, "ts"), UNBOUNDED) for n, a in enumerate("abc", 1)]
        classes = [
            AttributeClass(
                (Attribute(left, column_expr(left, "y")), Attribute(right, column_expr(right, "x")))
            )
            for left, right in ("ab", "bc", "ca")
        ]
        select = (Output("ax", column_expr("a", "x")),)
        query = Query(tuple(inputs), JoinGraph(("a", "b", "c"), tuple(classes)), select)
        edges = [Tuple(0, {"x": x, "y": y}) for x, y in [(1, 2), (2, 3), (3, 1), (3, 4)]]
        assert bag(joined(query, edges, edges, edges)) == bag([(1,), (2,), (3,)])


class TestLateness:
    def query(self, left_us: int, right_us: int) -> Query:
        return same_key(
            Input("a", stream("s1", left_us), range_us(100)),
            Input("b", stream("s2", right_us), range_us(100)),
        )

    def test_the_first_batch_has_no_watermark(self) -> None:
        _, late = accept(self.query(0, 0), [{"s1": [at(50), at(1)], "s2": [at(50), at(2)]}])
        assert late == {"s1": 0, "s2": 0}

    def test_late_means_before_the_watermark_not_at_it(self) -> None:
        batches = [{"s1": [at(50)], "s2": [at(60)]}, {"s1": [at(44), at(45)], "s2": [at(44)]}]
        accepted, late = accept(self.query(5, 0), batches)
        assert late == {"s1": 1, "s2": 1}
        assert [tuple_.ts for tuple_ in accepted["s1"]] == [50, 45]

    def test_a_stream_that_runs_ahead_makes_no_other_late(self) -> None:
        batches = [{"s1": [at(1000)], "s2": [at(10)]}, {"s1": [], "s2": [at(10), at(11)]}]
        assert accept(self.query(0, 0), batches)[1] == {"s1": 0, "s2": 0}

    def test_a_silent_stream_holds_the_watermark_back(self) -> None:
        batches = [{"s1": [at(1000)]}, {"s1": [at(5)]}, {"s2": [at(1)]}, {"s1": [at(0)]}]
        accepted, late = accept(self.query(0, 0), batches)
        assert late == {"s1": 1, "s2": 0}
        assert watermark(self.query(0, 0), {"s1": accepted["s1"]}) == BEGINNING

    def test_a_late_tuple_is_never_half_joined(self) -> None:
        batches = [{"s1": [at(50, 1)], "s2": [at(50, 2)]}, {"s1": [at(49, 9)]}]
        outcome = run(self.query(0, 0), batches)
        assert outcome.rows == [(1, 2)]
        assert outcome.late == {"s1": 1, "s2": 0}

    def test_lateness_counts_within_a_query_only(self) -> None:
        batches = [{"s1": [at(50)], "other": [at(900)]}, {"s1": [at(50)], "other": [at(1)]}]
        accepted, late = accept(single(range_us(5)), batches)
        assert (len(accepted["s1"]), late) == (2, {"s1": 0})

    def test_time_windows_answer_at_once_and_rows_windows_wait(self) -> None:
        batch = {"s1": [at(5, 1), at(9, 2)]}
        assert run(single(range_us(5)), [batch]).rows == [(1,), (2,)]
        assert run(single(rows(5)), [batch]).rows == [(1,)]
        assert run(single(rows(5)), [batch], flush=True).rows == [(1,), (2,)]


class TestDistinct:
    def query(self, window: Window) -> Query:
        return replace(single(window), distinct=True)

    def test_a_value_is_emitted_each_time_it_becomes_present(self) -> None:
        query = self.query(range_us(10))
        assert joined(query, [at(0, 1), at(5, 1), at(40, 1)]) == [(1,), (1,)]

    def test_a_value_that_never_left_is_not_emitted_again(self) -> None:
        query = self.query(range_us(10))
        assert joined(query, [at(0, 1), at(11, 1)]) == [(1,)]
        assert joined(query, [at(0, 1), at(12, 1)]) == [(1,), (1,)]

    def test_a_shorter_life_does_not_hide_a_longer_one(self) -> None:
        select = (Output("v", column_expr("a", "v")),)
        query = replace(pair(range_us(20), range_us(5)), distinct=True, select=select)
        left = [at(0, 7, k=1), at(-8, 7, k=2), at(15, 7, k=3)]
        right = [at(10, k=1), at(12, k=2), at(15, k=3)]
        assert lives_of(query, left, right) == [(10, 16), (12, 13), (15, 21)]
        assert joined(query, left, right) == [(7,)]

    def test_once_ever_when_unbounded(self) -> None:
        query = self.query(UNBOUNDED)
        assert joined(query, [at(0, 1), at(500, 1), at(900, 2)]) == [(1,), (2,)]

    def test_null_is_one_value_and_so_is_nan(self) -> None:
        query = replace(self.query(UNBOUNDED), select=(Output("k", column_expr("a", "k")),))
        found = joined(
            query, [at(0, k=None), at(1, k=None), at(2, k=NAN), at(3, k=NAN), at(4, k=-0.0), at(5, k=0.0)]
        )
        assert bag(found) == bag([(None,), (NAN,), (0.0,)])

    def test_it_waits_for_the_watermark(self) -> None:
        query = self.query(range_us(10))
        assert run(query, [{"s1": [at(0, 1), at(30, 2)]}]).rows == [(1,)]


class TestAggregates:
    def query(self, window: Window, every_us: int = 10, **options: Any) -> Query:
        total = Output("total", Expr("sum(a.v)", (ColumnRef("a", "v"),)))
        tick = Output("tick", Expr("answer_time", uses_answer_time=True))
        return replace(
            single(window),
            select=(tick, total),
            aggregate=Aggregate(emit_every_us=every_us, **{"group_by": (), **options}),
        )

    def test_each_tick_samples_the_answers_valid_then(self) -> None:
        query = self.query(range_us(12))
        assert joined(query, [at(0, 1), at(5, 2), at(11, 4)]) == [(0, 1), (10, 3), (20, 4)]

    def test_a_tick_without_answers_says_nothing(self) -> None:
        assert joined(self.query(range_us(5)), [at(1, 1), at(39, 2)]) == [(40, 2)]

    def test_ticks_before_the_epoch(self) -> None:
        assert joined(self.query(range_us(10)), [at(-15, 1)]) == [(-10, 1)]

    def test_the_end_of_an_answer_is_exclusive(self) -> None:
        assert joined(self.query(tumble_us(10)), [at(0, 1), at(10, 2)]) == [(0, 1), (10, 2)]

    def test_groups_are_separate_and_null_is_a_group(self) -> None:
        key = column_expr("a", "k")
        query = self.query(range_us(5), group_by=(key,))
        query = replace(query, select=(Output("k", key), Output("n", Expr("count(*)"))))
        assert bag(joined(query, [at(0, k=1), at(0, k=1), at(0, k=None)])) == bag([(1, 2), (None, 1)])

    def test_having_is_taken_for_each_tick(self) -> None:
        query = self.query(range_us(12), having=Expr("count(*) > 1"))
        assert joined(query, [at(0, 1), at(5, 2), at(11, 4)]) == [(10, 3)]

    def test_ticks_wait_for_the_watermark(self) -> None:
        assert run(self.query(range_us(12)), [{"s1": [at(0, 1), at(10, 2)]}]).rows == [(0, 1)]

    def test_rows_that_stay_for_ever_are_sampled_until_all_has_happened(self) -> None:
        query = self.query(rows(5))
        assert joined(query, [at(3, 1), at(15, 2)]) == [(10, 1), (20, 3)]
        assert emitted(query, {"s1": [at(3, 1), at(15, 2)]}, watermark=41) == [
            (10, 1),
            (20, 3),
            (30, 3),
            (40, 3),
        ]

    def test_the_papers_sum_query(self) -> None:
        """SELECT SUM(S1.size) over three streams of ten minutes that agree on dest, at the default tick."""
        columns = (Column("dest", "string"), Column("size", "bigint"), Column("ts", "timestamp"))
        names = ("S1", "S2", "S3")
        inputs = tuple(Input(name, Stream(name, columns, "ts"), range_us(10 * MINUTE_US)) for name in names)
        cls = AttributeClass(tuple(Attribute(name, column_expr(name, "dest")) for name in names), "string")
        total = Output("total", Expr("SUM(S1.size)", (ColumnRef("S1", "size"),)))
        query = Query(inputs, JoinGraph(names, (cls,)), (total,), aggregate=Aggregate((), MINUTE_US))

        def packet(minute: int, dest: str, size: int) -> Tuple:
            return Tuple(minute * MINUTE_US, {"dest": dest, "size": size})

        found = emitted(
            query,
            {
                "S1": [packet(0, "x", 100), packet(4, "x", 10), packet(5, "y", 1)],
                "S2": [packet(2, "x", 7), packet(6, "z", 7)],
                "S3": [packet(8, "x", 7), packet(8, "y", 7)],
            },
        )
        # Both x packets of S1 meet S2's at minute 2 and S3's at minute 8. The first leaves after minute 10,
        # and S2's, without which there is no answer, after minute 12.
        assert found == [(110,)] * 3 + [(10,)] * 2
