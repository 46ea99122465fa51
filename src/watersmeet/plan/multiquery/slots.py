"""Names that do not depend on how a query is written: of its tuples (slots) and of what is compared.

A slot is one occurrence of a stream under a window, `s1[RANGE 10 SECONDS]#0`. Queries that say the same with
other aliases, or in another order, give their inputs the same slots, so whatever is named after slots is
shared between them. Where a stream occurs more than once under one window the occurrences are told apart by
what they are joined with: colours, refined by the colours of neighbours until nothing changes. What is still
alike then is numbered in the order of FROM, since it may be swapped.

    s1 AS a, s1 AS b, s2 AS c  where  a.x = b.y, b.z = c.z      b is s1[..]#0 or #1, however it is called
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import sqlglot
from sqlglot import TokenType

from watersmeet.query import Attribute, AttributeClass, ColumnRef, Expr, Input, Query
from watersmeet.query.expression import quote_name, quote_ref
from watersmeet.query.shared_dataflow import KeyColumn
from watersmeet.query.window import name_window

SPREAD = "__spread"  # what a stream is routed by that joins nothing and has no event time


@dataclass(frozen=True)
class Slotted:
    """A query with its slots; inputs go by their places in FROM, and sets of them are bit masks."""

    query: Query
    slots: tuple[str, ...]
    keys: tuple[dict[int, KeyColumn], ...]  # for every class: what it compares of each input
    has_own_feeds: bool = False  # whether each input is sent by itself, after its filters
    names_routes: bool = False  # whether such an input may be sent by several attributes

    @staticmethod
    def of(query: Query) -> Slotted:
        keys = _key_columns(query)
        return Slotted(query, name_slots(query, keys), keys)

    @staticmethod
    def by_alias(query: Query, *, names_routes: bool = False) -> Slotted:
        """The query alone, its inputs under their own aliases."""
        return Slotted(query, query.graph.aliases, _key_columns(query), True, names_routes)

    @cached_property
    def class_masks(self) -> tuple[int, ...]:
        return tuple(sum(1 << n for n in key) for key in self.keys)

    @cached_property
    def compared(self) -> tuple[dict[str, KeyColumn], ...]:
        """For every input, all of it that is compared, by name."""
        return tuple(
            {keys[n].name: keys[n] for keys in self.keys if n in keys} for n in range(len(self.slots))
        )

    @property
    def shape(self) -> tuple[object, ...]:
        """All that the choice of joins depends on, and nothing of how the query is written."""
        classes = sorted(sorted((self.slots[n], key.name) for n, key in keys.items()) for keys in self.keys)
        return (tuple(sorted(self.slots)), tuple(map(tuple, classes)))

    def qualified(self, place: int, column: str) -> str:
        return f"{self.slots[place]}.{column}"

    def feed(self, place: int, route: str) -> str:
        """The name of the feed of an input by an attribute."""
        item = self.query.inputs[place]
        if self.has_own_feeds and not self.names_routes:
            return item.alias
        return f"{item.alias if self.has_own_feeds else item.stream.name} by {route}"

    def spread(self, place: int) -> KeyColumn:
        """What an input that joins nothing is routed by: never NULL, and not the same for all."""
        stream = self.query.inputs[place].stream
        if stream.event_time is not None:
            column = stream.column(stream.event_time)
            assert column is not None
            return own_column(stream.name, column.name, column.type)
        hashable = [column for column in stream.columns if "map<" not in column.type]
        listed = ", ".join(quote_ref(ColumnRef(stream.name, column.name)) for column in hashable)
        return KeyColumn(SPREAD, f"hash({listed})" if listed else "0", "int")


def _key_columns(query: Query) -> tuple[dict[int, KeyColumn], ...]:
    place = {item.alias: n for n, item in enumerate(query.inputs)}
    return tuple(
        {place[side.alias]: key_column(query.inputs[place[side.alias]], side, cls) for side in cls.attributes}
        for cls in query.graph.classes
    )


def name_slots(query: Query, keys: tuple[dict[int, KeyColumn], ...]) -> tuple[str, ...]:
    """The slot of every input, in FROM order."""
    bases = [f"{item.stream.name}{name_window(item.window)}" for item in query.inputs]
    colours = dict(enumerate(bases))
    if len(set(bases)) < len(bases):
        colours = _refine(colours, keys)
        while alike := [n for n, times in _twins(colours).items() if times > 1]:
            # One of several that nothing tells apart is taken first, and what that tells of the others used.
            colours[min(alike, key=lambda n: (colours[n], n))] += " first"
            colours = _refine(colours, keys)
    ordered = sorted(range(len(bases)), key=lambda n: (bases[n], colours[n]))
    seen: Counter[str] = Counter()
    slots = {}
    for n in ordered:
        slots[n] = f"{bases[n]}#{seen[bases[n]]}"
        seen[bases[n]] += 1
    return tuple(slots[n] for n in range(len(bases)))


def _twins(colours: dict[int, str]) -> dict[int, int]:
    times = Counter(colours.values())
    return {n: times[colour] for n, colour in colours.items()}


def _refine(colours: dict[int, str], keys: tuple[dict[int, KeyColumn], ...]) -> dict[int, str]:
    """Colours told apart by those of the inputs each is joined with, and by what."""
    while True:
        signatures = {}
        for n, colour in colours.items():
            joined = sorted(
                (cls[n].name, sorted((colours[other], key.name) for other, key in cls.items() if other != n))
                for cls in keys
                if n in cls
            )
            signatures[n] = repr((colour, joined))
        ranks = {each: rank for rank, each in enumerate(sorted(set(signatures.values())))}
        refined = {n: f"{ranks[each]:04d}" for n, each in signatures.items()}
        if len(set(refined.values())) == len(set(colours.values())):
            return refined
        colours = refined


def key_column(item: Input, side: Attribute, cls: AttributeClass) -> KeyColumn:
    """What a class compares of an input: the stream's own column where it is of the class's type."""
    if side.expr.is_column:
        column = item.stream.column(side.expr.columns[0].column)
        if column is not None and cls.type in (None, column.type):
            return own_column(item.stream.name, column.name, column.type)
    sql = under_stream_name(side.expr, item)
    is_quoted = any(quote in sql for quote in "'\"`")
    text = sql if is_quoted else sql.lower()
    return KeyColumn(f"{text} as {cls.type}" if cls.type else text, sql, cls.type)


def own_column(stream: str, column: str, type_: str) -> KeyColumn:
    return KeyColumn(column, quote_ref(ColumnRef(stream, column)), type_)


def under_stream_name(expr: Expr, item: Input) -> str:
    """An expression over one input with the stream's own name in place of the alias, the rest untouched."""
    if item.alias == item.stream.name:
        return expr.sql
    tokens = sqlglot.tokenize(expr.sql, read="spark")
    text, done = "", 0
    for n, token in enumerate(tokens[:-1]):
        is_first = n == 0 or tokens[n - 1].token_type is not TokenType.DOT
        is_table = token.text == item.alias and tokens[n + 1].token_type is TokenType.DOT
        if is_first and is_table and token.token_type is not TokenType.STRING:
            text += expr.sql[done : token.start] + quote_name(item.stream.name)
            done = token.end + 1
    return text + expr.sql[done:]
