"""What the sections of a query's state hold, by the identity that the state was written with.

A stage keeps rows in sections (`state_log.py`): the tuples of an input, what waits for the watermark, results
of joins that wait for partners. Marks of outer joins are not rows of anything, so they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from watersmeet.kernel.bucket import HELD
from watersmeet.kernel.layout import POSITION, key_column
from watersmeet.query import Window
from watersmeet.query.shared_dataflow import END, Relation, SharedDataflow
from watersmeet.query.window import window_from_json

Identity = Mapping[str, Any]  # the part `state` of a state identity

_WAITING = "#waiting "
_SIDE = re.compile(r"#\d+\.(left|right)")
_NAME = r"(?:\w+|`(?:[^`]|``)+`)"
_COLUMN = re.compile(rf"(?P<alias>{_NAME})\.(?P<column>{_NAME})")
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'")


class Holding(StrEnum):
    """What the rows of a section are."""

    TUPLES = "tuples"
    COPIES = "copies"  # of tuples that are in another section, for joins by another key
    WAITING = "waiting"  # tuples that the watermark has not passed
    RESULTS = "results"  # of joins, for joins to come
    ANSWERS = "answers"  # that wait for the watermark, or are sampled


@dataclass(frozen=True)
class Section:
    """Rows of one kind."""

    of: str  # an input, or several whose tuples are joined, or what the answers are of
    holds: Holding
    window: Window | None = None  # of the tuples of an input
    keys: tuple[tuple[str, str], ...] = ()  # what tuples are joined by, and the columns that have it
    axes: tuple[int, ...] | None = (
        None  # of the grid of buckets, that place a tuple; None: each tuple is once
    )
    order_by: tuple[str, ...] = ()  # what decides which of several tuples of one instant comes first
    qualifier: str = ""  # before the names of the input's columns


@dataclass(frozen=True)
class SideOfTree:
    """A section of which the columns tell what it holds."""

    inputs: Inputs

    def resolve(self, columns: Sequence[str]) -> Section:
        return self.inputs.side(columns)


Known = Section | SideOfTree


def sections_of(
    identity: Identity, dataflow: SharedDataflow | None, names: Iterable[str]
) -> dict[str, Known]:
    """The sections that hold rows, of those named; `dataflow` is of what is routed by levels."""
    if dataflow is not None:
        known: dict[str, Known] = dict(_of_relations(dataflow))
        known |= {name: Section("answers", Holding.ANSWERS) for name in names if name.startswith("#")}
        return {name: known[name] for name in names if name in known}
    inputs = Inputs(identity)
    found: dict[str, Known] = {name: SideOfTree(inputs) for name in names if _SIDE.fullmatch(name)}
    found |= {name: section for name in names if (section := inputs.section(name)) is not None}
    return found


def resolve(section: Known, columns: Sequence[str]) -> Section:
    """What a section holds, given the columns of its rows."""
    return section if isinstance(section, Section) else section.resolve(columns)


def _of_relations(dataflow: SharedDataflow) -> Iterator[tuple[str, Section]]:
    """The relations of all levels; of several that hold an input, the tuples are those of the first."""
    taken: set[str] = set()
    for relation in sorted(dataflow.relations, key=lambda each: (each.level, each.name)):
        if relation.slot is None:
            yield relation.name, Section(_joined(dataflow, relation), Holding.RESULTS)
            continue
        holds = Holding.COPIES if relation.slot in taken else Holding.TUPLES
        taken.add(relation.slot)
        keys = tuple((key, key) for key in relation.keys)
        yield relation.name, Section(relation.slot, holds, relation.window, keys)


def _joined(dataflow: SharedDataflow, relation: Relation) -> str:
    join = next(each for each in dataflow.joins if each.name == relation.source)
    return ", ".join(join.slots)


class Inputs:
    """The inputs of a query whose joins are made in one stage."""

    def __init__(self, identity: Identity) -> None:
        self._inputs = {item["alias"]: item for item in identity["inputs"]}
        self._classes = identity["classes"]
        self._is_grid = "shares" in identity["routing"]

    def section(self, name: str) -> Section | None:
        if name == HELD:
            return Section("answers", Holding.ANSWERS)
        if name == "#present":
            return Section("distinct values", Holding.ANSWERS)
        if name.startswith(_WAITING):
            return self._tuples(name.removeprefix(_WAITING), Holding.WAITING)
        if name in self._inputs:
            return self._tuples(name)
        return None

    def side(self, columns: Sequence[str]) -> Section:
        """A side of a node of a tree of joins, by the columns of its rows: an input, or results."""
        aliases = [alias for alias in self._inputs if any(name.startswith(f"{alias}.") for name in columns)]
        if len(aliases) == 1:
            own = self._tuples(aliases[0], qualifier=f"{aliases[0]}.")
            assert own is not None
            if own.window is not None and own.window.partition:  # counted in a store of its own
                return replace(own, holds=Holding.COPIES)
            if END not in columns or f"{aliases[0]}.{POSITION}" in columns:
                return own
        return Section(", ".join(aliases), Holding.RESULTS)

    def _tuples(self, alias: str, holds: Holding = Holding.TUPLES, qualifier: str = "") -> Section | None:
        if alias not in self._inputs:
            return None
        window = window_from_json(self._inputs[alias]["window"])
        own = [(number, text) for number, cls in enumerate(self._classes) for text in self._of(alias, cls)]
        keys = tuple((text, key_column(number)) for number, text in own)
        keys += tuple((text, f"{qualifier}{column}") for _, text in own if (column := _bare(text)))
        axes = (
            None
            if holds is Holding.WAITING
            else tuple(number for number, text in own if self._places(alias, window, number, text))
        )
        order_by = dict.fromkeys((*window.partition, *(name for name, _ in self._inputs[alias]["columns"])))
        return Section(alias, holds, window, keys, axes, tuple(order_by), qualifier)

    def _of(self, alias: str, cls: Mapping[str, Any]) -> Iterator[str]:
        """What a class compares of an input."""
        for text in cls["equal"]:
            columns = _COLUMN.finditer(_LITERAL.sub("''", text))
            if {_plain(found["alias"]) for found in columns} & self._inputs.keys() == {alias}:
                yield text

    def _places(self, alias: str, window: Window, number: int, text: str) -> bool:
        """Whether tuples are sent by a key: see `Query.routing_classes`."""
        if not window.partition:
            return True
        column = _bare(text)
        if column not in window.partition:
            return False
        type_ = dict(self._inputs[alias]["columns"])[column]
        return type_ == self._classes[number]["type"] or type_ not in ("float", "double")


def _bare(text: str) -> str | None:
    """The column that an expression is, if it is no more than that."""
    found = _COLUMN.fullmatch(text)
    return None if found is None else _plain(found["column"])


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
