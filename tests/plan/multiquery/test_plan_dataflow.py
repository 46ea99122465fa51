"""Planning shared dataflows: names that do not depend on wording, joins that are shared, legal trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.joins import edges, join_query
from tests.plan.multiquery.dataflows import check_dataflow
from tests.plan.multiquery.query_sets import COLUMNS, joinable_queries, reworded
from watersmeet.errors import QueryError
from watersmeet.plan.multiquery.plan_dataflow import MAX_STREAMS, Registered, plan_dataflow
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Query, Stream
from watersmeet.query.shared_dataflow import Hold, SharedDataflow
from watersmeet.sql import bind_query

Examples = Callable[[int], settings]

STREAMS = tuple(Stream(f"s{n}", COLUMNS, "ts") for n in range(1, 5))
TWO = "s1 [RANGE 10 SECONDS] AS a, s2 [RANGE 10 SECONDS] AS b"
THREE = f"{TWO}, s3 [RANGE 10 SECONDS] AS c"


def registered(*texts: str, first: int = 0) -> list[Registered]:
    queries = [bind_query(text, STREAMS) for text in texts]
    return [Registered(f"q{n}", n, query) for n, query in enumerate(queries, first)]


def plan(*texts: str, levels: int = 3, **given: object) -> SharedDataflow:
    queries = registered(*texts)
    dataflow = plan_dataflow(queries, STREAMS, levels, **given)  # type: ignore[arg-type]
    check_dataflow(dataflow, queries)
    return dataflow


def names(dataflow: SharedDataflow) -> tuple[list[str], ...]:
    return tuple(
        [each.name for each in some] for some in (dataflow.feeds, dataflow.relations, dataflow.joins)
    )


def members(dataflow: SharedDataflow, level: int) -> list[list[str]]:
    """What meets in each join of a level, by stream or, for results, all their streams."""
    relations = {relation.name: relation for relation in dataflow.relations}
    return [
        [
            (one.slot or one.source).split("[")[0].split(" ~")[0]
            for one in map(relations.get, join.members)
            if one
        ]
        for join in dataflow.joins
        if join.level == level
    ]


def test_a_query_on_one_attribute_is_one_join_of_all_its_inputs() -> None:
    dataflow = plan(
        f"SELECT a.v FROM {THREE}, s4 AS d WHERE a.b0 = b.b0 AND b.b0 = c.b1 AND c.b1 = d.b0", levels=1
    )
    assert members(dataflow, 1) == [["s1", "s2", "s3", "s4"]]
    assert len(dataflow.joins[0].equalities) == 3


def test_a_composite_key_is_asked_where_it_is_routed() -> None:
    dataflow = plan(f"SELECT a.v FROM {TWO} WHERE a.b0 = b.b0 AND a.t0 = b.t1", levels=1)
    (join,) = dataflow.joins
    assert len(join.equalities) == 2
    assert {relation.keys for relation in dataflow.relations} in (
        {("b0", "t0"), ("b0", "t1")},
        {("t0", "b0"), ("t1", "b0")},
    )


def test_the_closing_edge_of_a_cycle_is_asked_at_the_last_join() -> None:
    dataflow = plan(f"SELECT a.v FROM {THREE} WHERE a.b0 = b.b0 AND b.b1 = c.b1 AND c.b2 = a.b2", levels=2)
    assert [len(join.equalities) for join in dataflow.joins] == [1, 2]


def test_what_is_not_asked_for_is_not_sent() -> None:
    dataflow = plan(f"SELECT a.v, b.t0 FROM {TWO} WHERE a.b0 = b.b0 AND a.f0")
    feeds = {feed.name: ([key.name for key in feed.keys], feed.columns) for feed in dataflow.feeds}
    assert feeds == {"s1 by b0": (["b0"], ("f0", "v")), "s2 by b0": (["b0"], ("t0",))}


def test_other_aliases_and_another_order_mean_the_same() -> None:
    one = plan(f"SELECT a.v FROM {THREE} WHERE a.b0 = b.b0 AND b.b1 = c.b1")
    other = plan(
        "SELECT z.v FROM s3 [RANGE 10 SECONDS] AS x, s1 [RANGE 10000 MILLISECONDS] AS z "
        "JOIN s2 [RANGE 10 SECONDS] AS y ON z.b0 = y.b0 WHERE x.b1 = y.b1"
    )
    assert names(one) == names(other)
    assert one.tails[0].template == other.tails[0].template


def test_names_do_not_depend_on_wording(examples: Examples) -> None:
    """Also where a stream occurs several times: occurrences are told apart by what they are joined with."""

    @examples(50)
    @given(joinable_queries(STREAMS[:2], 5), st.permutations("uvwxyz"), st.randoms(use_true_random=False))
    def holds(query: Query, aliases: Sequence[str], random: object) -> None:
        order = list(range(len(query.inputs)))
        random.shuffle(order)  # type: ignore[attr-defined]
        other = reworded(query, dict(zip(query.graph.aliases, aliases, strict=False)), order)
        plain = reworded(query, {alias: alias for alias in query.graph.aliases}, range(len(order)))
        dataflows = [plan_dataflow([Registered("q", 0, each)], STREAMS, 5) for each in (plain, other)]
        assert names(dataflows[0]) == names(dataflows[1])

    holds()


def test_random_dataflows_are_legal(examples: Examples) -> None:
    @examples(30)
    @given(st.lists(joinable_queries(STREAMS, 5), min_size=1, max_size=6))
    def holds(queries: list[Query]) -> None:
        numbered = [Registered(f"q{n}", n, query) for n, query in enumerate(queries)]
        dataflow = plan_dataflow(numbered, STREAMS, 5)
        check_dataflow(dataflow, numbered)
        assert plan_dataflow(numbered[::-1], STREAMS, 5) == dataflow
        assert plan_dataflow(numbered, STREAMS, 5, kept=dataflow) == dataflow

    holds()


def test_queries_that_differ_in_constants_share_everything_but_their_endings() -> None:
    texts = [
        f"SELECT a.v, c.t0 FROM {THREE} WHERE a.b0 = b.b0 AND b.b1 = c.b1 AND a.v = {n} AND b.t1 < '{n}'"
        for n in range(50)
    ]
    dataflow, alone = plan(*texts), plan(texts[0])
    assert names(dataflow) == names(alone)
    assert len({tail.template for tail in dataflow.tails}) == 1


def test_queries_share_the_joins_they_have_in_common() -> None:
    first = f"SELECT a.v FROM {TWO} WHERE a.b0 = b.b0"
    longer = f"SELECT a.v, c.v AS w FROM {THREE} WHERE a.b0 = b.b0 AND b.b1 = c.b1"
    dataflow = plan(first, longer)
    assert members(dataflow, 1) == [["s1", "s2"]]
    assert members(dataflow, 2) == [["s1 s2", "s3"]]


def test_what_is_there_already_decides_between_trees() -> None:
    """What another query joins already comes first, whichever would be chosen alone."""
    chain = f"SELECT a.v FROM {THREE} WHERE a.b0 = b.b0 AND b.b1 = c.b1"
    for pair, joined in (("a.b0 = b.b0", ["s1", "s2"]), ("b.b1 = c.b1", ["s2", "s3"])):
        streams = "s1 [RANGE 10 SECONDS] AS a, " if "a." in pair else "s3 [RANGE 10 SECONDS] AS c, "
        other = f"SELECT b.v FROM {streams} s2 [RANGE 10 SECONDS] AS b WHERE {pair}"
        assert members(plan(other, chain), 1) == [joined]


@pytest.mark.parametrize(("rare", "first"), [("s1", ["s1", "s2"]), ("s3", ["s2", "s3"])])
def test_rates_decide_where_nothing_is_there(rare: str, first: list[str]) -> None:
    statistics = Statistics({rare: StreamStatistics(rate_per_s=1.0)})
    chain = f"SELECT a.v FROM {THREE} WHERE a.b0 = b.b0 AND b.b1 = c.b1"
    assert members(plan(chain, statistics=statistics), 1) == [first]


def test_a_chain_of_four_fits_two_levels_and_a_star_of_four_needs_three() -> None:
    where = "a.b0 = b.b0 AND b.b1 = c.b1 AND c.b2 = d.b2"
    dataflow = plan(f"SELECT a.v FROM {THREE}, s4 AS d WHERE {where}", levels=2)
    assert members(dataflow, 2) == [["s1 s2", "s3 s4"]]
    star = f"SELECT a.v FROM {THREE}, s4 AS d WHERE a.b0 = b.b0 AND a.b1 = c.b1 AND a.b2 = d.b2"
    assert max(join.level for join in plan(star, levels=3).joins) == 3
    with pytest.raises(QueryError, match="query q0 needs 3 levels of joins, and the dataflow has 2"):
        plan(star, levels=2)


def test_a_query_is_refused_just_where_no_tree_is_flat_enough(examples: Examples) -> None:
    @examples(30)
    @given(joinable_queries(STREAMS, 6))
    def holds(query: Query) -> None:
        found = [Registered("q", 0, query)]
        deepest = plan_dataflow(found, STREAMS, 6)
        needed = max(join.level for join in deepest.joins)
        while needed > 1 and (flatter := planned(found, needed - 1)) is not None:
            check_dataflow(flatter, found)
            needed -= 1
        if needed > 1:
            with pytest.raises(
                QueryError, match=f"needs {needed} levels of joins, and the dataflow has {needed - 1}"
            ):
                plan_dataflow(found, STREAMS, needed - 1)

    def planned(found: list[Registered], levels: int) -> SharedDataflow | None:
        try:
            return plan_dataflow(found, STREAMS, levels)
        except QueryError:
            return None

    holds()


@pytest.mark.parametrize("topology", ["chain", "star", "cycle", "type 1", "fully-connected"])
@pytest.mark.parametrize("count", [2, 5, 8, 12, 16])
def test_many_inputs_are_planned(topology: str, count: int) -> None:
    aliases = [f"t{n:02d}" for n in range(count)]
    query = join_query(aliases, edges(topology, aliases))
    streams = [item.stream for item in query.inputs]
    found = [Registered("q", 0, query)]
    check_dataflow(plan_dataflow(found, streams, count), found)


def test_a_query_that_is_kept_keeps_its_joins_whatever_is_known_later() -> None:
    chain = f"SELECT a.v FROM {THREE} WHERE a.b0 = b.b0 AND b.b1 = c.b1"
    distinct = AttributeStatistics(distinct=1e6)
    rare = Statistics({"s3": StreamStatistics(rate_per_s=1.0, attributes={"b1": distinct})})
    first = plan(chain, statistics=Statistics({"s1": StreamStatistics(rate_per_s=1.0)}))
    kept = plan_dataflow(registered(chain), STREAMS, 3, rare, kept=first)
    assert names(kept) == names(first)
    assert names(plan_dataflow(registered(chain), STREAMS, 3, rare)) != names(first)
    more = [
        *registered(chain),
        *registered(f"SELECT b.v FROM {THREE} WHERE b.b1 = c.b1 AND a.t0 = b.t0", first=1),
    ]
    grown = plan_dataflow(more, STREAMS, 3, rare, kept=first)
    check_dataflow(grown, more)
    for before, after in zip(names(first), names(grown), strict=True):
        assert set(before) <= set(after)
    assert names(plan_dataflow(registered(chain), STREAMS, 3, rare, kept=grown)) == names(first)


def test_streams_keep_their_places() -> None:
    first = plan_dataflow([], STREAMS[1:3], 2)
    again = plan_dataflow([], STREAMS, 2, kept=first)
    assert first.streams == ("s2", "s3")
    assert again.streams == ("s2", "s3", "s1", "s4")


def test_a_single_stream_is_spread_by_what_is_never_null() -> None:
    (timed,) = plan("SELECT v FROM s1 WHERE v > 3").feeds
    assert timed.route == "ts"
    stamped = Stream("s9", (*COLUMNS[:2],))
    query = Registered("q", 0, bind_query("SELECT b0 FROM s9", [stamped]))
    dataflow = plan_dataflow([query], [stamped], 1)
    check_dataflow(dataflow, [query])
    assert dataflow.feeds[0].keys[0].sql == "hash(s9.b0, s9.b1)"


def test_what_is_compared_is_named_by_its_stream_and_type() -> None:
    dataflow = plan(f"SELECT a.v FROM {TWO} WHERE LOWER(a.t0) = b.t0 AND a.i0 = b.b0")
    keys = {key.name: (key.sql, key.type) for feed in dataflow.feeds for key in feed.keys}
    assert keys == {
        "lower(s1.t0) as string": ("LOWER(s1.t0)", "string"),
        "s1.i0 as bigint": ("s1.i0", "bigint"),
        "t0": ("s2.t0", "string"),
        "b0": ("s2.b0", "bigint"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT a.v FROM s1 [ROWS 5] AS a, s2 AS b WHERE a.b0 = b.b0", "s1 AS a .ROWS 5. counts rows"),
        (
            "SELECT a.v FROM s1 [RANGE 9 SECONDS] a LEFT JOIN s2 [RANGE 9 SECONDS] b ON a.b0 = b.b0",
            "it has outer, semi or anti joins",
        ),
    ],
)
def test_what_a_dataflow_does_not_run_is_refused(text: str, message: str) -> None:
    with pytest.raises(
        QueryError, match=f"query q0 does not run in a shared dataflow: {message}.* by itself"
    ):
        plan(text)


@pytest.mark.parametrize(
    ("text", "by_time"),
    [
        ("SELECT DISTINCT v + 1 AS w FROM s1", False),
        ("SELECT DISTINCT v FROM s1 WHERE v % 2 = 1", False),
        ("SELECT DISTINCT hour(answer_time) AS h FROM s1", True),
    ],
)
def test_distinct_values_that_spark_computes_take_no_level(text: str, by_time: bool) -> None:
    (tail,) = plan(text, levels=1).tails
    assert tail.hold == Hold(repeats=True, by_time=by_time)
    assert not tail.has_values


def test_values_take_a_level_after_the_joins() -> None:
    pair = "SELECT DISTINCT a.v FROM s1 AS a, s2 AS b WHERE a.b0 = b.b0"
    assert plan(pair, levels=2).depth == 2
    with pytest.raises(QueryError, match="needs 2 levels of joins, and one for the values of DISTINCT, and"):
        plan(pair, levels=1)


def test_a_dataflow_has_a_limit_of_streams_and_reads_its_own_alone() -> None:
    many = [Stream(f"t{n}", COLUMNS, "ts") for n in range(MAX_STREAMS + 1)]
    assert len(plan_dataflow([], many[:-1], 1).streams) == MAX_STREAMS
    with pytest.raises(QueryError, match="at most 63 streams, not 64"):
        plan_dataflow([], many, 1)
    with pytest.raises(QueryError, match="query q0: s1 is no stream of the dataflow"):
        plan_dataflow(registered("SELECT v FROM s1"), STREAMS[1:], 1)
