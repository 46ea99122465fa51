"""Statistics as a JSON file that a person can read and edit; docs/statistics.md describes it.

Reading refuses what it does not understand, and says where: `streams.s1.rate_per_s: must be positive,
got -3`. What is left out has its default; writing leaves defaults out, so a file read and written again
says the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.plan.statistics.statistics import (
    AttributeStatistics,
    Bin,
    HeavyHitter,
    Link,
    Network,
    Statistics,
    StreamStatistics,
    Value,
)

VERSION = 1
FIELDS = (
    "$schema",
    "version",
    "streams",
    "selectivities",
    "filters",
    "network",
    "result_tuple_bytes",
    "unbounded_window_s",
)
SCHEMA_PATH = Path(__file__).with_name("statistics.schema.json")


def read_statistics(path: str | Path) -> Statistics:
    """The statistics of a file; a mistake in it is named with its path in the JSON."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot read statistics: {error}") from error
    try:
        return parse_statistics(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def write_statistics(statistics: Statistics, path: str | Path) -> None:
    """Write a file that `read_statistics` reads back as the same statistics."""
    Path(path).write_text(format_statistics(statistics), encoding="utf-8")


def parse_statistics(text: str) -> Statistics:
    """The statistics of a JSON text."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from error
    except RecursionError:
        raise ConfigurationError("not JSON of statistics: it is nested too deeply") from None
    fields = _Node(data, "").fields(*FIELDS)
    if "version" in fields and fields["version"].number() != VERSION:
        raise fields["version"].refuse(f"{VERSION}")
    with _naming(""):
        return Statistics(
            streams={name: _stream(node) for name, node in _entries(fields, "streams")},
            selectivities={
                _pair(node, name): node.number() for name, node in _entries(fields, "selectivities")
            },
            filters={name: node.number() for name, node in _entries(fields, "filters")},
            network=_network(fields["network"]) if "network" in fields else Network(),
            **_numbers(fields, "result_tuple_bytes", "unbounded_window_s"),
        )


def format_statistics(statistics: Statistics) -> str:
    """The JSON text of statistics, defaults left out."""
    data: dict[str, Any] = {
        "version": VERSION,
        "streams": {name: _stream_json(stream) for name, stream in statistics.streams.items()},
    }
    if statistics.selectivities:
        pairs = {tuple(sorted(pair)): share for pair, share in statistics.selectivities.items()}
        data["selectivities"] = {f"{pair[0]} = {pair[-1]}": share for pair, share in sorted(pairs.items())}
    if statistics.filters:
        data["filters"] = dict(statistics.filters)
    if statistics.network != Network():
        data["network"] = _network_json(statistics.network)
    if statistics.result_tuple_bytes is not None:
        data["result_tuple_bytes"] = statistics.result_tuple_bytes
    if statistics.unbounded_window_s != Statistics().unbounded_window_s:
        data["unbounded_window_s"] = statistics.unbounded_window_s
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


class _NamedError(ConfigurationError):
    """An error that already says its whole path."""


@dataclass(frozen=True)
class _Node:
    """A piece of JSON that knows where it stands."""

    data: Any
    path: str

    def refuse(self, wanted: str) -> _NamedError:
        got = json.dumps(self.data, ensure_ascii=False)
        shown = got if len(got) <= 60 else got[:57] + "..."
        return _NamedError(f"{self.path or 'the file'}: must be {wanted}, got {shown}")

    def below(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def entries(self) -> dict[str, _Node]:
        """The members of an object whose names are the user's own."""
        if not isinstance(self.data, dict):
            raise self.refuse("an object {...}")
        return {key: _Node(value, self.below(key)) for key, value in self.data.items()}

    def fields(self, *known: str, required: tuple[str, ...] = ()) -> dict[str, _Node]:
        """The members of an object whose names are fixed."""
        entries = self.entries()
        for key, node in entries.items():
            if key not in known:
                raise _NamedError(f"{node.path}: is not known here; write one of {', '.join(known)}")
        for key in required:
            if key not in entries:
                raise _NamedError(f"{self.below(key)}: is missing")
        return entries

    def items(self) -> list[_Node]:
        if not isinstance(self.data, list):
            raise self.refuse("a list [...]")
        return [_Node(value, f"{self.path}[{index}]") for index, value in enumerate(self.data)]

    def number(self) -> float:
        if isinstance(self.data, bool) or not isinstance(self.data, int | float):
            raise self.refuse("a number")
        if not math.isfinite(self.data):
            raise self.refuse("a finite number")
        return self.data

    def text(self) -> str:
        if not isinstance(self.data, str):
            raise self.refuse("text in quotes")
        return self.data

    def value(self) -> Value:
        if not isinstance(self.data, str | int | float):
            raise self.refuse("text, a number or a boolean")
        return self.data


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Put a path before what a statistics class has against its fields."""
    try:
        yield
    except _NamedError:
        raise
    except ConfigurationError as error:
        raise _NamedError(f"{path}.{error}" if path else str(error)) from error


def _entries(fields: Mapping[str, _Node], name: str) -> list[tuple[str, _Node]]:
    return list(fields[name].entries().items()) if name in fields else []


def _numbers(fields: Mapping[str, _Node], *names: str) -> dict[str, float]:
    return {name: fields[name].number() for name in names if name in fields}


def _pair(node: _Node, name: str) -> frozenset[str]:
    """The two columns of a key such as `s1.dest = s2.dest`."""
    sides = [side.strip() for side in name.split(" = ")]
    if len(sides) != 2 or not all(stream and dot and column for stream, dot, column in map(_split, sides)):
        raise _NamedError(f"{node.path}: must name an equality, such as 's1.dest = s2.dest'")
    return frozenset(sides)


def _split(side: str) -> tuple[str, str, str]:
    return side.partition(".")


def _stream(node: _Node) -> StreamStatistics:
    fields = node.fields("rate_per_s", "tuple_bytes", "site", "attributes")
    with _naming(node.path):
        return StreamStatistics(
            site=fields["site"].text() if "site" in fields else None,
            attributes={name: _attribute(child) for name, child in _entries(fields, "attributes")},
            **_numbers(fields, "rate_per_s", "tuple_bytes"),
        )


def _attribute(node: _Node) -> AttributeStatistics:
    fields = node.fields("distinct", "heavy_hitters", "histogram", "value_bytes")
    with _naming(node.path):
        return AttributeStatistics(
            heavy_hitters=tuple(_heavy_hitter(item) for item in _items(fields, "heavy_hitters")),
            histogram=tuple(_bin(item) for item in _items(fields, "histogram")),
            **_numbers(fields, "distinct", "value_bytes"),
        )


def _items(fields: Mapping[str, _Node], name: str) -> list[_Node]:
    return fields[name].items() if name in fields else []


def _heavy_hitter(node: _Node) -> HeavyHitter:
    fields = node.fields("value", "rate_per_s", required=("value", "rate_per_s"))
    return fields["value"].value(), fields["rate_per_s"].number()


def _bin(node: _Node) -> Bin:
    names = ("low", "high", "rate_per_s", "distinct")
    fields = node.fields(*names, required=names)
    with _naming(node.path):
        return Bin(**_numbers(fields, *names))


def _network(node: _Node) -> Network:
    fields = node.fields("default", "links")
    links = {}
    for item in _items(fields, "links"):
        ends = item.fields("from", "to", "bytes_per_s", "latency_s", required=("from", "to"))
        links[ends["from"].text(), ends["to"].text()] = _link(item, ends)
    default = fields.get("default")
    return Network(links, _link(default, default.fields("bytes_per_s", "latency_s")) if default else Link())


def _link(node: _Node, fields: Mapping[str, _Node]) -> Link:
    with _naming(node.path):
        return Link(**_numbers(fields, "bytes_per_s", "latency_s"))


def _stream_json(stream: StreamStatistics) -> dict[str, Any]:
    site = {"site": stream.site} if stream.site else {}
    attributes = {name: _attribute_json(attribute) for name, attribute in stream.attributes.items()}
    sizes = {"rate_per_s": stream.rate_per_s, "tuple_bytes": stream.tuple_bytes}
    return {**sizes, **site, **({"attributes": attributes} if attributes else {})}


def _attribute_json(attribute: AttributeStatistics) -> dict[str, Any]:
    data: dict[str, Any] = {"distinct": attribute.distinct}
    if attribute.value_bytes != AttributeStatistics().value_bytes:
        data["value_bytes"] = attribute.value_bytes
    if attribute.heavy_hitters:
        data["heavy_hitters"] = [{"value": v, "rate_per_s": rate} for v, rate in attribute.heavy_hitters]
    if attribute.histogram:
        data["histogram"] = [vars(bin_) for bin_ in attribute.histogram]
    return data


def _network_json(network: Network) -> dict[str, Any]:
    default = {"default": _link_json(network.default)} if network.default != Link() else {}
    links = [{"from": a, "to": b, **_link_json(link)} for (a, b), link in network.links.items()]
    return {**default, **({"links": links} if links else {})}


def _link_json(link: Link) -> dict[str, float]:
    return {name: number for name, number in vars(link).items() if number != getattr(Link(), name)}
