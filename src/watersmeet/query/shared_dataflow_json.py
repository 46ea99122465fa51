"""What a shared dataflow keeps and joins, as JSON and back, so that a restart goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from watersmeet.query.shared_dataflow import (
    Expected,
    Feed,
    Join,
    KeyColumn,
    QueryTail,
    Relation,
    SharedDataflow,
    Way,
)
from watersmeet.query.window import window_from_json


def dataflow_to_json(dataflow: SharedDataflow) -> dict[str, Any]:
    """Feeds, relations and joins in full; of the tails only the join at which each query ends."""
    return {
        "levels": dataflow.levels,
        "streams": list(dataflow.streams),
        "sets": {name: list(streams) for name, streams in dataflow.sets},
        "feeds": [asdict(feed) for feed in dataflow.feeds],
        "relations": [_relation_to_json(relation) for relation in dataflow.relations],
        "joins": [asdict(join) for join in dataflow.joins],
        "ends": {str(tail.number): tail.join for tail in dataflow.tails},
        "expected": [asdict(expected) for expected in dataflow.expected],
    }


def dataflow_from_json(fields: Mapping[str, Any]) -> SharedDataflow:
    """The dataflow as it was, with bare tails: the planner keeps its joins, and has the queries itself."""
    return SharedDataflow(
        levels=fields["levels"],
        streams=tuple(fields["streams"]),
        sets=tuple((name, tuple(streams)) for name, streams in fields.get("sets", {}).items()),
        feeds=tuple(_feed(each) for each in fields["feeds"]),
        relations=tuple(_relation(each) for each in fields["relations"]),
        joins=tuple(_join(each) for each in fields["joins"]),
        tails=tuple(
            QueryTail(query="", number=int(number), join=join, streams=(), slots=())
            for number, join in fields["ends"].items()
        ),
        expected=tuple(Expected(**each) for each in fields.get("expected", ())),
    )


def _relation_to_json(relation: Relation) -> dict[str, Any]:
    window = relation.window
    return {**asdict(relation), "window": None if window is None else window.to_json()}


def _feed(fields: Mapping[str, Any]) -> Feed:
    keys = tuple(KeyColumn(**key) for key in fields["keys"])
    return Feed(**{**_tuples(fields), "keys": keys})


def _relation(fields: Mapping[str, Any]) -> Relation:
    window = fields["window"]
    return Relation(
        **{**_tuples(fields), "window": window and window_from_json(window)},
    )


def _join(fields: Mapping[str, Any]) -> Join:
    equalities = tuple((left, right) for left, right in fields["equalities"])
    orders = tuple((member, tuple(order)) for member, order in fields["orders"])
    ways = tuple(Way(way["relation"], tuple(way["meets"])) for way in fields.get("ways", ()))
    return Join(**{**_tuples(fields), "equalities": equalities, "orders": orders, "ways": ways})


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
