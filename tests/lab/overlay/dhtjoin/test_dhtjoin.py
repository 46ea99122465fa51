"""DHTJoin, section by section of the extended version: its answers are the oracle's, its messages few."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.compared import Case, Compared, tuples_of
from tests.lab.overlay.dhtjoin.rings import join, pose, publish, quiet
from tests.strategies import cases
from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.actions import Direct
from watersmeet.lab.overlay.chord.living_ring import LivingRing
from watersmeet.lab.overlay.chord.stable_ring import StableRing
from watersmeet.lab.overlay.dhtjoin.messages import Answers, Disseminate, IndexTuple
from watersmeet.lab.overlay.dhtjoin.network import (
    DhtJoinNetwork,
    QueryArrival,
    TupleArrival,
    delivery_bound_us,
    start_dhtjoin,
)
from watersmeet.lab.overlay.dhtjoin.operators import Published, key_text, operator_tree
from watersmeet.lab.overlay.dhtjoin.protocol import Settings
from watersmeet.lab.overlay.dhtjoin.query_table import QueryTable, query_entry
from watersmeet.lab.simulation import NO_DELAY, Delay, constant_delay, random_delay
from watersmeet.oracle.oracle import MicroBatch, Tuple, bag, emitted
from watersmeet.plan.sites.dhtjoin import plan_dhtjoin
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import (
    ColumnRef,
    Expr,
    Input,
    Query,
    RangeWindow,
    rows,
)

Streams = Mapping[str, Sequence[Tuple]]
RANGE_JOINS = cases(
    min_inputs=2, max_inputs=5, kinds=("plain",), windows=(RangeWindow,), key_expressions=True
)


def in_order(query: Query, batches: Sequence[MicroBatch]) -> dict[str, list[Tuple]]:
    """All tuples of each stream, by event time: none is late."""
    found = tuples_of(query, batches)
    return {name: sorted(tuples, key=lambda one: one.ts) for name, tuples in found.items()}


def feed(
    run: DhtJoinNetwork, query: Query, tuples: Streams, rng: random.Random, node: int | None = None
) -> None:
    """Insert each tuple at its event time, each stream at its own node unless one is given."""
    at = {name: node if node is not None else rng.choice(list(run.overlay.ring.nodes)) for name in tuples}
    event_time = {stream.name: stream.event_time for stream in query.streams}
    for name, inserted in tuples.items():
        for tuple_ in inserted:
            timed = Tuple(tuple_.ts, {**tuple_.values, str(event_time[name]): tuple_.ts})
            run.insert_at(TupleArrival(tuple_.ts, at[name], name, timed))


def first_ts(tuples: Streams) -> int:
    return min((tuple_.ts for inserted in tuples.values() for tuple_ in inserted), default=0)


def start(
    nodes: int, tuples: Streams, delay: Delay, seed: int, ahead_us: int | None = None
) -> DhtJoinNetwork:
    """A run that starts so long before the first tuple that a query is known everywhere by then."""
    ring = StableRing.of(nodes)
    bound = delivery_bound_us(ring, delay)
    before = nodes * (bound + 1) if ahead_us is None else ahead_us
    return start_dhtjoin(
        ring, Settings(delivery_us=bound), seed=seed, delay=delay, start_us=first_ts(tuples) - before
    )


class TestAnswers:
    """The answers are the oracle's bag (section 3.3), whatever the delays."""

    def test_answers_are_the_oracles(self, examples: Callable[[int], settings]) -> None:
        compared = Compared()

        @examples(20)
        @given(
            case=RANGE_JOINS,
            bound_us=st.sampled_from([0, 0, 1, 4]),
            nodes=st.sampled_from([1, 2, 8, 13]),
            seed=st.integers(0, 99),
        )
        def check(case: Case, bound_us: int, nodes: int, seed: int) -> None:
            query, batches = case
            tuples = in_order(query, batches)
            run = start(nodes, tuples, random_delay(bound_us) if bound_us else NO_DELAY, seed)
            rng = random.Random(seed)
            pose(run, query, run.overlay.now_us, rng.choice(list(run.overlay.ring.nodes)))
            feed(run, query, tuples, rng)
            run.overlay.run()
            compared.same(run.answers["q"], emitted(query, tuples))

        check()
        compared.assert_answers(0.3)

    def test_tuples_that_overtake_their_query_wait_for_it(self, examples: Callable[[int], settings]) -> None:
        """Where the node that asks is also the source, tuples and query set out together (section 3.1)."""
        compared = Compared()

        @examples(15)
        @given(case=RANGE_JOINS, bound_us=st.sampled_from([1, 5, 20]), seed=st.integers(0, 99))
        def check(case: Case, bound_us: int, seed: int) -> None:
            query, batches = case
            tuples = in_order(query, batches)
            run = start(8, tuples, random_delay(bound_us), seed, ahead_us=0)
            pose(run, query, run.overlay.now_us)
            feed(run, query, tuples, random.Random(seed), node=0)
            run.overlay.run()
            compared.same(run.answers["q"], emitted(query, tuples))

        check()
        compared.assert_answers(0.3)

    def test_queries_that_share_producers_each_get_their_own_answers(
        self, examples: Callable[[int], settings]
    ) -> None:
        """The same query posed three times, the last time in the midst of the tuples: it sees later ones."""
        compared = Compared()

        @examples(30)
        @given(case=RANGE_JOINS, bound_us=st.sampled_from([0, 3]), seed=st.integers(0, 99))
        def check(case: Case, bound_us: int, seed: int) -> None:
            query, batches = case
            tuples = in_order(query, batches)
            run = start(8, tuples, random_delay(bound_us) if bound_us else NO_DELAY, seed)
            begin = run.overlay.now_us
            stamps = sorted(tuple_.ts for inserted in tuples.values() for tuple_ in inserted)
            middle = stamps[len(stamps) // 2] if stamps else begin
            for qid, at_us in (("early", begin), ("too", begin), ("late", middle)):
                pose(run, query, at_us, 0, qid)
            feed(run, query, tuples, random.Random(seed), node=0)
            run.overlay.run()
            seen = {name: [tuple_ for tuple_ in all_ if tuple_.ts >= middle] for name, all_ in tuples.items()}
            assert bag(run.answers["early"]) == bag(run.answers["too"])
            compared.same(run.answers["early"], emitted(query, tuples))
            compared.same(run.answers["late"], emitted(query, seen))

        check()
        compared.assert_answers(0.3)

    def test_nodes_that_join_and_leave_lose_nothing(self, examples: Callable[[int], settings]) -> None:
        compared = Compared()

        @examples(15)
        @given(case=RANGE_JOINS, seed=st.integers(0, 99), data=st.data())
        def check(case: Case, seed: int, data: st.DataObject) -> None:
            query, batches = case
            tuples = in_order(query, batches)
            run = start_dhtjoin(LivingRing.of(8), seed=seed, start_us=first_ts(tuples) - 10)
            pose(run, query, run.overlay.now_us)
            feed(run, query, tuples, random.Random(seed), node=0)
            for step in range(4):
                at_us = run.overlay.now_us + 10 + data.draw(st.integers(0, 60))
                if data.draw(st.booleans()):
                    run.overlay.simulator.at(at_us, run.overlay.join, f"new-{step}", 0)
                else:
                    run.overlay.simulator.at(at_us, run.overlay.leave, 7 - step)
            run.overlay.run()
            compared.same(run.answers["q"], emitted(query, tuples))

        check()
        compared.assert_answers(0.3)


class TestIndexing:
    """Section 3.2: a tuple is indexed only by attributes that some query needs, from its arrival on."""

    def test_without_queries_nothing_is_sent(self) -> None:
        run = quiet()
        publish(run, "x", 1)
        run.overlay.run()
        assert not run.traffic

    def test_a_tuple_goes_by_each_needed_attribute_and_no_other(self) -> None:
        table = QueryTable()
        tuple_ = Published("x", {"a": 1, "b": 2, "c": 3, "d": 4}, 9, 9, 0)
        queries = [join(["x.b = y.b"]), join(["x.b = z.b"]), join(["x.c = z.c"]), join(["y.d = z.d"])]
        indexed = []
        for number, query in enumerate(queries):
            table.add(query_entry(f"q{number}", 0, query, plan_dhtjoin(query, Statistics()), 5))
            indexed.append([key.column for _, key in table.lanes_for(tuple_)])
        assert indexed == [["b"], ["b"], ["b", "c"], ["b", "c"]]

    def test_tuples_from_before_the_query_are_not_indexed_and_not_answered(self) -> None:
        run = quiet()
        pose(run, join(["x.b = y.b"]), at_us=10)
        publish(run, "x", 9, b=1, a=1)
        publish(run, "x", 11, b=1, a=2)
        publish(run, "y", 12, b=1)
        run.overlay.run()
        assert run.answers["q"] == [(2,)]
        assert (
            sum(len(window) for node in run.protocol.nodes.values() for window in node.windows.values()) == 2
        )

    def test_a_tuple_that_another_query_stored_is_no_answer_to_a_later_one(self) -> None:
        """Section 3.3.2: a predicate is evaluated only with tuples that arrive after the query."""
        run = quiet()
        pose(run, join(["x.b = y.b"]), qid="old")
        pose(run, join(["x.b = y.b", "y.c = z.c"]), at_us=10, qid="new")
        publish(run, "x", 5, b=1, a=5)
        publish(run, "x", 11, b=1, a=11)
        publish(run, "y", 12, b=1, c=2)
        publish(run, "z", 13, c=2)
        run.overlay.run()
        assert sorted(run.answers["old"]) == [(5,), (11,)]
        assert run.answers["new"] == [(11,)]

    def test_a_second_query_on_known_attributes_costs_its_dissemination_alone(self) -> None:
        """Section 6.1: more messages only if new queries contain attributes not present before."""

        def traffic(qids: Sequence[str]) -> dict[str, int]:
            run = quiet()
            for qid in qids:
                pose(run, join(["x.b = y.b", "y.c = z.c"]), qid=qid)
            three_way(run)
            assert all(run.answers[qid] == [(7,)] for qid in qids)
            return {kind: hops for kind, hops in run.traffic.items() if kind.startswith("index")}

        assert traffic(["q"]) == traffic(["q", "r", "s"])

    def test_a_tuple_that_no_filter_lets_pass_stays_home(self) -> None:
        query = join(["x.b = y.b"])
        picky = Input(
            "x", query.inputs[0].stream, query.inputs[0].window, (Expr("x.d > 3", (ColumnRef("x", "d"),)),)
        )
        run = quiet()
        pose(run, replace(query, inputs=(picky, query.inputs[1])))
        publish(run, "x", 1, b=1, d=3)
        publish(run, "x", 2, b=1, d=4, a=2)
        publish(run, "y", 3, b=1)
        run.overlay.run()
        assert run.answers["q"] == [(2,)]
        assert (
            sum(node.windows["x.b:bigint"].arrived[1] for node in run.protocol.nodes.values() if node.windows)
            == 1
        )

    def test_equal_values_of_different_types_have_one_key(self) -> None:
        assert key_text(1) == key_text(1.0) == key_text(Decimal("1.00")) != key_text("1")


def three_way(run: DhtJoinNetwork) -> None:
    publish(run, "x", 1, b=1, a=7)
    publish(run, "y", 2, b=1, c=2)
    publish(run, "z", 3, c=2)
    run.overlay.run()


class TestExecution:
    """Section 3.3: type 1 at one node, type 2 along a pipeline."""

    def test_type_1_sends_no_partial_results(self) -> None:
        run = quiet()
        pose(run, join(["x.b = y.b = z.b"]))
        for at_us, stream in enumerate("xyzx"):
            publish(run, stream, at_us, node=at_us, b=1)
        run.overlay.run()
        assert len(run.answers["q"]) == 2
        assert run.traffic["index partial results"] == 0
        holders = [node for node in run.protocol.nodes.values() if node.windows]
        assert [sum(map(len, node.windows.values())) for node in holders] == [4]

    def test_type_2_sends_partial_results_to_the_node_of_the_next_value(self) -> None:
        """The example q2: x and y meet at the node of b, xy and z at the node of c."""
        run = quiet()
        pose(run, join(["x.b = y.b", "y.c = z.c"]))
        three_way(run)
        assert run.answers["q"] == [(7,)]
        kept = {
            node.number: sorted(lane for lane, window in node.windows.items() if len(window))
            for node in run.protocol.nodes.values()
            if node.windows
        }
        at_b, at_c = run.overlay.owner(key_text(1)), run.overlay.owner(key_text(2))
        assert at_b != at_c
        first, second = kept[at_b], kept[at_c]
        assert {lane[0] for lane in first} | {lane[0] for lane in second} >= {"x", "y", "z", "("}
        assert len(first) == len(second) == 2

    def test_a_tuple_leaves_its_window(self) -> None:
        run = quiet()
        pose(run, join(["x.b = y.b"], window_us=10))
        publish(run, "x", 1, b=1)
        publish(run, "y", 11, b=1)
        publish(run, "y", 12, b=1)
        run.overlay.run()
        assert len(run.answers["q"]) == 1
        assert run.overlay.counters.storage.sum() == 2

    def test_a_partial_result_that_takes_long_still_meets_what_it_should(self) -> None:
        """A window is kept for the delays of all steps of the pipeline, not of one message."""
        hop_us = 10
        run = start_dhtjoin(
            StableRing(range(8), 3), Settings(delivery_us=3 * hop_us), delay=constant_delay(hop_us)
        )
        known = Statistics(
            {name: StreamStatistics(rate) for name, rate in (("x", 1.0), ("y", 1.0), ("z", 9.0))}
        )
        run.submit_at(QueryArrival(0, 0, "q", join(["x.b = y.b", "y.c = z.c"], window_us=5)), known)

        def hops(source: int, value: int) -> int:
            return len(run.overlay.ring.path(source, run.overlay.identifier(key_text(value))))

        ways = [
            (hops(0, b) + hops(run.overlay.owner(key_text(b)), c), b, c) for b in range(50) for c in range(50)
        ]
        longest, b, c = max(ways)
        assert longest > 4
        publish(run, "z", 100, c=c)
        publish(run, "x", 105, b=b, a=7)
        publish(run, "y", 105, b=b, c=c)
        run.overlay.run()
        assert run.answers["q"] == [(7,)]

    def test_a_longer_window_prolongs_what_a_shorter_one_has_stored(self) -> None:
        """One node, by hand: x arrives after the long query was posed, and before it reaches the node."""
        protocol = quiet().protocol
        rng = random.Random(0)
        alone = protocol.links.id_of(0) + 1  # a limit that leaves no other node to send to

        def learn(qid: str, window_us: int, inserted_us: int) -> Disseminate:
            query = join(["x.b = y.b"], window_us)
            entry = query_entry(qid, 0, query, plan_dhtjoin(query, Statistics()), inserted_us)
            return Disseminate(entry, alone, 0)

        def arrival(stream: str, ts: int) -> IndexTuple:
            tuple_ = Published(stream, {"a": ts, "b": 1, "c": 0, "d": 0}, ts, ts, 0)
            return IndexTuple(f"{stream}.b:bigint", 1, tuple_, 0)

        sent = []
        for message, now_us in [
            (learn("short", 5, 0), 0),
            (arrival("x", 11), 11),
            (learn("long", 100, 10), 12),
            (arrival("y", 60), 60),
        ]:
            sent += list(protocol.receive(0, message, now_us, rng))
        answers = [action.message for action in sent if isinstance(action, Direct)]
        assert [(answer.qid, answer.rows) for answer in answers if isinstance(answer, Answers)] == [
            ("long", ((11,),))
        ]

    def test_probing_starts_where_matches_are_fewest(self) -> None:
        """Section 3.3.1: every node orders the probing sequence by itself."""
        run = quiet()
        pose(run, join(["x.b = y.b = z.b"]))
        for at_us in range(20):
            publish(run, "y", at_us, b=1)
        publish(run, "z", 30, b=1)
        for at_us in range(40, 45):
            publish(run, "x", at_us, b=1)
        run.overlay.run()
        (join_,) = [mjoin for node in run.protocol.nodes.values() for mjoin in node.joins.values()]
        aliases = [slot.aliases[0] for slot in join_.operator.slots]
        order = [aliases[slot] for slot in join_.order(aliases.index("x"))]
        assert order == ["z", "y"]
        assert len(run.answers["q"]) == 100

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            (replace(join(["x.b = y.b"]), distinct=True), "DISTINCT"),
            (
                replace(
                    join(["x.b = y.b"]),
                    inputs=tuple(replace(i, window=rows(3)) for i in join(["x.b = y.b"]).inputs),
                ),
                r"x: DHTJoin runs over sliding time windows, not \[ROWS 3\]",
            ),
        ],
    )
    def test_what_dhtjoin_cannot_run_is_refused(self, query: Query, said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            operator_tree(query, plan_dhtjoin(query, Statistics()))
