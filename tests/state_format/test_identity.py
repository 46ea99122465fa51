"""What a checkpoint's state depends on is in its identity, and nothing else; each change has words."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.state_format.cases import CASES, PARTITIONS, STREAMS, StateCase, shared_dataflow
from tests.state_format.golden import compare
from watersmeet.errors import ConfigurationError
from watersmeet.plan.physical import PhysicalPlan, plan_physical
from watersmeet.plan.state_format import (
    STATE_FORMAT,
    StateIdentity,
    describe_change,
    identify_dataflow,
    identity_from_json,
)
from watersmeet.plan.statistics.statistics import Statistics, StreamStatistics
from watersmeet.query import UNBOUNDED, Aggregate, Column, Expr, Query, Stream, range_us, tumble_us
from watersmeet.query.window import name_window
from watersmeet.sql import bind_query


def _shared_identity() -> StateIdentity:
    return identify_dataflow(shared_dataflow().levels, STREAMS, PARTITIONS)


def _view_identity() -> StateIdentity:
    """Of a query that reads views, which no other test of this folder runs."""
    sql = (
        "WITH seen AS (SELECT customer, ts FROM visits WHERE page <> 'x' "
        "UNION ALL SELECT customer, ts FROM orders), "
        "words AS (SELECT customer, explode(CAST(split(page, '/') AS ARRAY<STRING>)) AS word FROM visits) "
        "SELECT a.customer FROM seen [RANGE 5 SECONDS] AS a, words [RANGE 5 SECONDS] AS b "
        "WHERE a.customer = b.customer"
    )
    return plan_physical(bind_query(sql, STREAMS), PARTITIONS, routing="shares").identity


IDENTITIES = {name: case.plan.identity for name, case in CASES.items()} | {
    "shared": _shared_identity(),
    "view": _view_identity(),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_the_identity_changes_only_with_the_format(name: str) -> None:
    compare(f"identity-{name}", IDENTITIES[name].to_json())


@pytest.mark.parametrize("name", IDENTITIES)
def test_an_identity_comes_back_from_its_fingerprint(name: str) -> None:
    identity = IDENTITIES[name]
    assert identity_from_json(json.loads(identity.fingerprint)).fingerprint == identity.fingerprint


def test_explanations_may_be_reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: case.plan.fingerprint for name, case in CASES.items()}
    names = [relation.name for relation in shared_dataflow().relations]
    windows = {type(item.window) for case in CASES.values() for item in case.query.inputs}
    for explained in (Query, Expr, Column, Stream, Aggregate, PhysicalPlan, *windows):
        monkeypatch.setattr(explained, "pretty", lambda self: "in other words")
    for name, case in CASES.items():
        assert StateCase(case.sql, case.routing).plan.fingerprint == before[name]
    assert [relation.name for relation in shared_dataflow().relations] == names


def test_what_may_change_between_two_runs_is_not_in_the_identity() -> None:
    streams = [
        replace(stream, lateness_us=1, idle_after_us=5, max_ahead_us=9, site="paris", source=None)
        for stream in STREAMS
    ]
    statistics = Statistics({"orders": StreamStatistics(rate_per_s=12345.0)})
    case = CASES["windows-of-time"]
    changed = plan_physical(bind_query(case.sql, streams), PARTITIONS, statistics)
    assert changed.fingerprint == case.plan.fingerprint


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value[key], (*path, key))
    else:
        yield path


def _changed(fields: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """The same with another value at the end of the path."""
    changed = copy.deepcopy(fields)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = _other(holder[path[-1]])
    return changed


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value} changed"


@pytest.mark.parametrize("name", IDENTITIES)
def test_every_change_is_described(name: str) -> None:
    fields = IDENTITIES[name].to_json()
    paths = [path for path in _leaves(fields) if path != ("format",)]
    assert len(paths) > 10
    for path in paths:
        said = describe_change(json.dumps(fields), json.dumps(_changed(fields, path)))
        assert " in the checkpoint," in said or "is damaged" in said, path


def _change(old: str, new: str, **routing: Any) -> str:
    plans = [plan_physical(bind_query(sql, STREAMS), PARTITIONS, **routing) for sql in (old, new)]
    return describe_change(plans[0].fingerprint, plans[1].fingerprint)


PAIR = "SELECT o.id FROM orders [RANGE 10 MINUTES] AS o, payments [RANGE 1 HOUR] AS p WHERE o.id = p.order_id"


@pytest.mark.parametrize(
    ("written", "changed", "described"),
    [
        (
            "10 MINUTES",
            "5 MINUTES",
            ["window of o: RANGE 10 MIN in the checkpoint, RANGE 5 MIN in the query"],
        ),
        ("[RANGE 1 HOUR]", "", ["window of p: RANGE 1 H in the checkpoint, UNBOUNDED in the query"]),
        ("SELECT", "SELECT DISTINCT", ["DISTINCT: no in the checkpoint, yes in the query"]),
        (
            "o.id =",
            "o.amount > 5 AND o.id =",
            [
                "filters of o: none in the checkpoint, o.amount > 5 in the query",
                "column amount of o: none in the checkpoint, decimal(10,2) in the query",
            ],
        ),
        ("SELECT o.id", "SELECT o.id AS n", ["SELECT: o.id AS id in the checkpoint, o.id AS n in the query"]),
        (
            " WHERE o.id = p.order_id",
            ", visits AS v WHERE o.id = p.order_id AND p.customer = v.customer",
            [
                "inputs: o, p in the checkpoint, o, p, v in the query",
                "joins: o.id = p.order_id as bigint in the checkpoint,\n"
                "    o.id = p.order_id as bigint, p.customer = v.customer as string in the query",
                "column customer of p: none in the checkpoint, string in the query",
                "shares of the join classes: 3 in the checkpoint, 3 x 1 in the query",
            ],
        ),
    ],
)
def test_a_change_is_described_field_by_field(written: str, changed: str, described: list[str]) -> None:
    lines = "".join(f"  {line}\n" for line in described)
    assert _change(PAIR, PAIR.replace(written, changed, 1)) == (
        "the checkpoint was written by a different query; its state does not fit this one:\n"
        f"{lines}  Give the changed query a new checkpoint directory, or restore the old query."
    )


def test_another_tree_of_joins_is_a_change() -> None:
    """With the same inputs and equalities: nothing else tells a left join from an anti join."""
    left = (
        "SELECT o.id FROM orders [RANGE 1 HOUR] AS o "
        "LEFT JOIN visits [ROWS 3] AS v ON o.customer = v.customer"
    )
    said = _change(left, left.replace("LEFT", "LEFT ANTI"))
    assert (
        "  tree of joins: (o left join v on o.customer = v.customer as string) in the checkpoint,\n"
        "    (o anti join v on o.customer = v.customer as string) in the query\n"
    ) in said
    inner = _change(left.replace("LEFT", ""), left)
    assert "  tree of joins: none in the checkpoint," in inner


def test_another_event_time_is_a_change() -> None:
    """Even where the query reads both columns."""
    columns = (Column("k", "bigint"), Column("sent", "timestamp"), Column("seen", "timestamp"))
    fingerprints = []
    for time in ("sent", "seen"):
        stream = Stream("s", columns, time)
        query = bind_query("SELECT a.k FROM s AS a, s AS b WHERE a.k = b.k AND a.sent < b.seen", [stream])
        fingerprints.append(plan_physical(query, PARTITIONS).fingerprint)
    assert "event time of a: sent in the checkpoint, seen in the query\n" in describe_change(*fingerprints)


def test_another_routing_is_described_without_its_details() -> None:
    said = describe_change(CASES["chain-by-shares"].plan.fingerprint, CASES["pipeline"].plan.fingerprint)
    assert "  routing: shares in the checkpoint, pipeline in the query\n" in said
    assert "level" not in said


OLD = "state format 3\nshuffle partitions 3\nfrom s1 AS a [RANGE 3 S]"


@pytest.mark.parametrize(
    ("fingerprint", "written"),
    [
        (OLD, "state format 3, by an older version"),
        ("ring format 1\nshuffle partitions 3\nlevels 2", "ring format 1, by an older version"),
        (json.dumps({"format": 99}), "state format 99, by a newer version"),
    ],
)
def test_state_of_another_format_is_refused_with_both_numbers(fingerprint: str, written: str) -> None:
    refusal = (
        f"the checkpoint was written in {written} of Watersmeet; this one reads state format {STATE_FORMAT}. "
        "Resume it with the version that wrote it, or start anew with another checkpoint"
    )
    assert describe_change(fingerprint, CASES["distinct"].plan.fingerprint) == refusal
    if fingerprint.startswith("{"):
        with pytest.raises(ConfigurationError, match="state format 99, by a newer version"):
            identity_from_json(json.loads(fingerprint))


@pytest.mark.parametrize("text", ["", "garbage", "[]", "{}", '{"format": 4}', '{"format": 4, "state": {}}'])
def test_what_is_no_fingerprint_is_said_to_be_damaged(text: str) -> None:
    assert "or is damaged" in describe_change(text, CASES["distinct"].plan.fingerprint)


def test_names_of_windows_are_for_ever() -> None:
    """State of shared dataflows is kept under them."""
    windows = [range_us(90_000_000), tumble_us(3_600_000_000), range_us(1), UNBOUNDED]
    assert [name_window(window) for window in windows] == [
        "[RANGE 90 S]",
        "[TUMBLE 1 H]",
        "[RANGE 1 US]",
        "[UNBOUNDED]",
    ]
