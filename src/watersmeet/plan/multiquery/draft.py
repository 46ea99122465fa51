"""A shared dataflow under construction: each query's tree adds what is not there yet under its name."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.plan.multiquery.slots import Slotted
from watersmeet.plan.multiquery.tails import Needed
from watersmeet.plan.multiquery.tree import Column, Tree, part_mask
from watersmeet.query import Window
from watersmeet.query.shared_dataflow import Feed, Join, KeyColumn, QueryTail, Relation, SharedDataflow


@dataclass
class _FeedDraft:
    stream: str
    route: str
    keys: dict[str, KeyColumn] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)
    levels: set[int] = field(default_factory=set)


@dataclass
class _RelationDraft:
    level: int
    source: str
    window: Window | None
    slot: str | None
    route: str
    keys: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    streams: set[str] = field(default_factory=set)


@dataclass
class _JoinDraft:
    level: int
    members: tuple[str, ...]
    equalities: tuple[tuple[str, str], ...]
    slots: tuple[str, ...]
    columns: set[str] = field(default_factory=set)


class DataflowDraft:
    """Feeds, relations and joins by name, growing with every query."""

    def __init__(self) -> None:
        self._feeds: dict[str, _FeedDraft] = {}
        self._relations: dict[str, _RelationDraft] = {}
        self._joins: dict[str, _JoinDraft] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._joins or name in self._relations

    def add(self, slotted: Slotted, tree: Tree, needed: Needed, streams: tuple[str, ...]) -> None:
        """Adds a query's tree, whose results must have the needed columns; `streams` are those it reads."""
        spell = slotted.qualified
        join = self._joins.get(tree.name)
        if join is None:
            equalities = tuple((spell(*left), spell(*right)) for left, right in tree.equalities)
            slots = tuple(sorted(slot for n, slot in enumerate(slotted.slots) if tree.mask >> n & 1))
            join = self._joins[tree.name] = _JoinDraft(tree.level, tree.relations, equalities, slots)
        join.columns.update(spell(*column) for column in needed)
        for name, part in zip(tree.relations, tree.parts, strict=True):
            mask = part_mask(part)
            compared = {column for pair in tree.equalities for column in pair if mask >> column[0] & 1}
            brought = frozenset(column for column in needed if mask >> column[0] & 1)
            if isinstance(part, Tree):
                self._add_results(slotted, name, tree, part, compared, brought, streams)
                self.add(slotted, part, brought | compared, streams)
            else:
                self._add_input(slotted, name, tree, part, compared, brought, streams)

    def _add_results(
        self,
        slotted: Slotted,
        name: str,
        tree: Tree,
        part: Tree,
        compared: set[Column],
        brought: Needed,
        streams: tuple[str, ...],
    ) -> None:
        assert tree.cls is not None
        relation = self._relations.get(name)
        if relation is None:
            route = min(
                slotted.qualified(n, key.name)
                for n, key in slotted.keys[tree.cls].items()
                if part.mask >> n & 1
            )
            relation = _RelationDraft(tree.level, part.name, None, None, route)
            self._relations[name] = relation
        relation.keys.update(slotted.qualified(*column) for column in compared)
        relation.columns.update(slotted.qualified(*column) for column in brought)
        relation.streams.update(streams)

    def _add_input(
        self,
        slotted: Slotted,
        name: str,
        tree: Tree,
        position: int,
        compared: set[Column],
        brought: Needed,
        streams: tuple[str, ...],
    ) -> None:
        item = slotted.query.inputs[position]
        route = slotted.spread(position) if tree.cls is None else slotted.keys[tree.cls][position]
        feed_name = slotted.feed(position, route.name)
        feed = self._feeds.setdefault(feed_name, _FeedDraft(item.stream.origins[0].name, route.name))
        feed.keys.setdefault(route.name, route)
        feed.levels.add(tree.level)
        for _, column in brought | compared:
            key = slotted.compared[position].get(column)
            if key is None:
                feed.columns.add(column)
            else:
                feed.keys.setdefault(column, key)
        relation = self._relations.get(name)
        if relation is None:
            slot = slotted.slots[position]
            relation = _RelationDraft(tree.level, feed_name, item.window, slot, route.name)
            self._relations[name] = relation
        relation.keys.update(column for _, column in compared)
        relation.columns.update(column for _, column in brought)
        relation.streams.update(streams)

    def dataflow(self, levels: int, streams: tuple[str, ...], tails: tuple[QueryTail, ...]) -> SharedDataflow:
        """All of it, in an order that depends on names alone."""
        return SharedDataflow(
            levels=levels,
            streams=streams,
            feeds=tuple(_feed(name, draft) for name, draft in sorted(self._feeds.items())),
            relations=tuple(
                sorted(
                    (_relation(name, draft, streams) for name, draft in self._relations.items()),
                    key=lambda relation: (relation.level, relation.name),
                )
            ),
            joins=tuple(
                sorted(
                    (
                        Join(
                            name=name,
                            level=draft.level,
                            members=draft.members,
                            equalities=draft.equalities,
                            columns=tuple(sorted(draft.columns)),
                            slots=draft.slots,
                        )
                        for name, draft in self._joins.items()
                    ),
                    key=lambda join: (join.level, join.name),
                )
            ),
            tails=tuple(sorted(tails, key=lambda tail: tail.number)),
        )


def _feed(name: str, draft: _FeedDraft) -> Feed:
    keys = (draft.keys[draft.route], *(draft.keys[key] for key in sorted(draft.keys) if key != draft.route))
    columns = tuple(sorted(draft.columns - draft.keys.keys()))
    return Feed(
        name=name,
        stream=draft.stream,
        route=draft.route,
        keys=keys,
        columns=columns,
        levels=tuple(sorted(draft.levels)),
    )


def _relation(name: str, draft: _RelationDraft, streams: tuple[str, ...]) -> Relation:
    keys = (draft.route, *sorted(draft.keys - {draft.route}))
    return Relation(
        name=name,
        level=draft.level,
        source=draft.source,
        window=draft.window,
        slot=draft.slot,
        route=draft.route,
        keys=keys,
        columns=tuple(sorted(draft.columns - set(keys))),
        streams=tuple(stream for stream in streams if stream in draft.streams),
    )
