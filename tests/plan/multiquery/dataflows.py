"""What must hold for any shared dataflow, checked from its parts alone."""

from __future__ import annotations

from watersmeet.plan.multiquery.plan_dataflow import Registered
from watersmeet.plan.multiquery.slots import Slotted
from watersmeet.query.shared_dataflow import Join, QueryTail, Relation, SharedDataflow


def check_dataflow(dataflow: SharedDataflow, queries: list[Registered]) -> None:
    """Names stand for one thing, columns are where they are needed, every query gets its own equalities."""
    for named in (dataflow.feeds, dataflow.relations, dataflow.joins):
        names = [each.name for each in named]
        assert len(set(names)) == len(names)
    assert [tail.number for tail in dataflow.tails] == sorted(each.number for each in queries)
    _check_columns(dataflow)
    by_number = {each.number: each for each in queries}
    for tail in dataflow.tails:
        _check_query(dataflow, tail, by_number[tail.number])


def _check_columns(dataflow: SharedDataflow) -> None:
    feeds = {feed.name: feed for feed in dataflow.feeds}
    joins = {join.name: join for join in dataflow.joins}
    relations = {relation.name: relation for relation in dataflow.relations}
    for relation in dataflow.relations:
        assert 1 <= relation.level <= dataflow.levels
        assert relation.keys[0] == relation.route
        wanted = {*relation.keys, *relation.columns}
        assert len(wanted) == len(relation.keys) + len(relation.columns)
        if relation.slot is None:
            assert relation.window is None
            assert joins[relation.source].level < relation.level
            assert wanted <= set(joins[relation.source].columns)
        else:
            feed = feeds[relation.source]
            assert relation.route == feed.route
            assert relation.level in feed.levels
            assert wanted <= {key.name for key in feed.keys} | set(feed.columns)
    for join in dataflow.joins:
        members = [relations[name] for name in join.members]
        assert {member.level for member in members} == {join.level}
        brought = {one.qualified(name) for one in members for name in (*one.keys, *one.columns)}
        assert set(join.columns) <= brought
        keys = {one.qualified(name) for one in members for name in one.keys}
        assert {column for pair in join.equalities for column in pair} <= keys
        _check_route(join, members)
    for tail in dataflow.tails:
        asked = {test.column for test in tail.tests} | {test.other for test in tail.tests if test.other}
        asked |= {column for _, column in tail.outputs or () if column != "answer_time"}
        assert asked | set(tail.payload) <= set(joins[tail.join].columns)


def _check_route(join: Join, members: list[Relation]) -> None:
    """All members are equal in what they are routed by: they meet in one bucket."""
    routes = [member.qualified(member.route) for member in members]
    linked = _classes(join.equalities)
    assert len(routes) == 1 or len({linked[route] for route in routes}) == 1


def _check_query(dataflow: SharedDataflow, tail: QueryTail, registered: Registered) -> None:
    slotted = Slotted.of(registered.query)
    joins = _below(dataflow, tail.join)
    leaves = [one for join in joins for one in join.members if _relation(dataflow, one).slot is not None]
    assert sorted(_relation(dataflow, one).slot or "" for one in leaves) == sorted(slotted.slots)
    assert dict(tail.slots) == dict(zip(registered.query.graph.aliases, slotted.slots, strict=True))
    asked = [pair for join in joins for pair in join.equalities]
    wanted = [{slotted.qualified(n, key.name) for n, key in keys.items()} for keys in slotted.keys]
    linked = _classes(asked)
    for attributes in wanted:
        assert len({linked[attribute] for attribute in attributes}) == 1
    if len({attribute for each in wanted for attribute in each}) == sum(map(len, wanted)):
        # Where no attribute is in two classes: no equality twice, and none that was not written.
        assert len(asked) == sum(len(attributes) - 1 for attributes in wanted)
    read = {stream.name for stream in registered.query.streams}
    assert set(tail.streams) == read
    for join in joins:
        for name in join.members:
            assert read <= set(_relation(dataflow, name).streams)


def _below(dataflow: SharedDataflow, name: str) -> list[Join]:
    join = next(each for each in dataflow.joins if each.name == name)
    sources = [_relation(dataflow, member).source for member in join.members]
    names = {each.name for each in dataflow.joins}
    return [join, *(below for source in sources if source in names for below in _below(dataflow, source))]


def _relation(dataflow: SharedDataflow, name: str) -> Relation:
    return next(each for each in dataflow.relations if each.name == name)


def _classes(pairs: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> dict[str, str]:
    """For every column, one that stands for all that are equal to it."""
    leader: dict[str, str] = {}
    for left, right in pairs:
        one, other = leader.setdefault(left, left), leader.setdefault(right, right)
        leader = {column: one if lead == other else lead for column, lead in leader.items()}
    return leader
