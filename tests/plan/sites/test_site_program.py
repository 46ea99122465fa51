"""Site programs: one placement, cut into what each site does, and the joins of a site in levels."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.wan.pmjoin.test_pmjoin import drawn_plan
from tests.plan.papers import example
from tests.strategies import TIME_WINDOWS, queries
from watersmeet.errors import QueryError
from watersmeet.plan.sites.placement import Placement, place
from watersmeet.plan.sites.plan_tree import links
from watersmeet.plan.sites.pmjoin.pmjoin import plan_distributed, plan_pmjoin
from watersmeet.plan.sites.site_dataflow import ELSEWHERE, site_dataflow
from watersmeet.plan.sites.site_program import all_sends, fingerprint_of, site_programs
from watersmeet.plan.statistics.statistics import AttributeStatistics, Statistics, StreamStatistics
from watersmeet.query import Query, Stream
from watersmeet.sql import bind_query, parse_pipeline


def described(placement: Placement) -> list[str]:
    def partitions(send: object) -> str:
        guard = getattr(send, "guard", None)
        return f" {sorted(guard.partitions)}" if guard else ""

    return [f"{send.name} {send.source} -> {send.target}{partitions(send)}" for send in all_sends(placement)]


def test_example_1_ships_what_is_rare_to_what_is_frequent() -> None:
    """Section 1: s2's a go from n2 to n1 and on to n3; b goes from n3 over n1 to n2; c over n2 to n1."""
    query, statistics = example("pmjoin-example-1")
    plan = plan_pmjoin(query, statistics, partitions=3, partitioning="rate").root
    placement = place(query, plan)
    ways = {(load.source, load.target) for load in links(plan)}
    sends = all_sends(placement)
    assert {(send.source, send.target) for send in sends if send.crosses} == ways
    assert placement.sites == ("n1", "n2", "n3")
    assert len(placement.joins) == 6  # two for each of three partitions
    for alias in query.graph.aliases:
        guards = [send.guard for send in sends if send.origin == alias]
        taken = Counter(n for guard in guards if guard for n in guard.partitions)
        assert taken == Counter(range(3)), "a value goes one way"


def test_partitions_of_one_structure_share_their_joins() -> None:
    """Ten values, each a partition: where a is frequent b is shipped, and the other way round."""
    streams = [Stream(name, parse_columns("x"), "ts", site=site) for name, site in (("a", "p"), ("b", "q"))]
    query = bind_query("SELECT a.x FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.x = b.x", streams)
    rates = {"a": [9.0, 1.0] * 5, "b": [1.0, 9.0] * 5}
    known = {
        stream.name: StreamStatistics(
            50.0, 8.0, stream.site, {"x": AttributeStatistics(10, tuple(enumerate(rates[stream.name])))}
        )
        for stream in streams
    }
    plan = plan_pmjoin(query, Statistics(known), partitions=10, partitioning="hash")
    assert len(plan.partitions) > 2
    placement = place(query, plan.root)
    assert [join.site for join in placement.joins] in (["p", "q"], ["q", "p"])
    assert sorted(sum(send.crosses for send in all_sends(placement) if send.origin == o) for o in "ab") == [
        1,
        1,
    ]


def test_the_fingerprint_is_of_the_whole_placement() -> None:
    query, statistics = example("pmjoin-example-1")
    plans = [
        plan_distributed(query, statistics).root,
        plan_pmjoin(query, statistics, partitions=3, partitioning="rate").root,
        plan_pmjoin(query, statistics, partitions=2, partitioning="rate").root,
        plan_pmjoin(query, statistics, partitions=2, partitioning="hash").root,
    ]
    prints = [fingerprint_of(query, place(query, plan)) for plan in plans]
    assert len(set(prints)) == len(plans)
    again = plan_pmjoin(query, statistics, partitions=3, partitioning="rate").root
    assert fingerprint_of(query, place(query, again)) == prints[1]
    programs = site_programs(query, place(query, plans[1]))
    assert {program.fingerprint for program in programs.values()} == {prints[1]}


def test_whatever_is_sent_over_a_link_is_expected_there(examples: Callable[[int], settings]) -> None:
    """Random queries and plans: sends and receives agree, and every port of a site is fed."""

    @examples(60)
    @given(queries(2, 5, kinds=("plain",), windows=TIME_WINDOWS), st.integers(0, 10**6))
    def check(query: Query, seed: int) -> None:
        placement = place(query, drawn_plan(query, random.Random(seed)))
        programs = site_programs(query, placement)
        sent = {send.name for program in programs.values() for send in program.sends if send.crosses}
        assert sent == {send.name for program in programs.values() for send in program.receives}
        for program in programs.values():
            site = site_dataflow(query, program)
            fed = {send.port.name for send in (*program.sends, *program.receives)}
            assert site.ports.keys() == {
                f"{join.number}.{n}" for join in program.joins for n in range(len(join.inputs))
            }
            assert site.ports.keys() <= fed
            levels = {join.name: join.level for join in site.dataflow.joins}
            for relation in site.dataflow.relations:
                assert relation.source == ELSEWHERE or levels[relation.source] < relation.level
            for origin, leaves in site.leaves.items():
                assert leaves, origin
                assert not {leaf for leaf in leaves if leaf in site.leaves and site.leaves[leaf] != (leaf,)}

    check()


def test_a_join_over_several_attributes_becomes_levels() -> None:
    streams = [
        Stream(name, parse_columns(text), "ts", site="n1")
        for name, text in {"a": "x", "b": "x, y", "c": "y, z", "d": "z"}.items()
    ]
    text = (
        "SELECT a.x, d.z FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE], c [RANGE 1 MINUTE], d [RANGE 1 MINUTE]"
    )
    query = bind_query(f"{text} WHERE a.x = b.x AND b.y = c.y AND c.z = d.z", streams)
    rng = random.Random(1)
    placement = next(
        found
        for found in iter(lambda: place(query, drawn_plan(query, rng)), None)
        if any(len(join.inputs) == 4 for join in found.joins)
    )
    (join,) = placement.joins
    site = site_dataflow(query, site_programs(query, placement)[join.site])
    assert [each.level for each in site.dataflow.joins] == [1, 2, 3]
    assert site.dataflow.levels == 3


def parse_columns(text: str) -> tuple:  # type: ignore[type-arg]
    columns = ", ".join(f"{name.strip()} BIGINT" for name in text.split(","))
    return parse_pipeline(f"CREATE STREAM s ({columns}, ts TIMESTAMP) WITH (format = 'x')").streams[0].columns


def test_what_does_not_run_across_sites_is_refused() -> None:
    streams = [Stream(name, parse_columns("x"), "ts", site=site) for name, site in (("a", "p"), ("b", "q"))]
    query = bind_query("SELECT a.x FROM a [ROWS 5], b [ROWS 5] WHERE a.x = b.x", streams)
    program = next(iter(site_programs(query, place(query, drawn_plan(query, random.Random(0)))).values()))
    with pytest.raises(QueryError, match="counts rows"):
        site_dataflow(query, program)
