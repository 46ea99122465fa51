"""The statistics file: reading it back, naming mistakes by their path, and its schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.paths import DOCS
from tests.plan.papers import PAPERS
from tests.plan.sites.pmjoin.models import attribute_statistics, quantities
from watersmeet.errors import ConfigurationError
from watersmeet.plan.statistics.file import (
    SCHEMA_PATH,
    format_statistics,
    parse_statistics,
    read_statistics,
    write_statistics,
)
from watersmeet.plan.statistics.statistics import Bin, Link, Network, Statistics, StreamStatistics

SCHEMA = json.loads(SCHEMA_PATH.read_text())
FULL = """{
  "version": 1,
  "streams": {
    "s1": {
      "rate_per_s": 100, "tuple_bytes": 40.5, "site": "paris",
      "attributes": {
        "k": {
          "distinct": 500, "value_bytes": 4,
          "heavy_hitters": [{"value": "a", "rate_per_s": 30}, {"value": 7, "rate_per_s": 1.5}],
          "histogram": [{"low": 0, "high": 10, "rate_per_s": 20, "distinct": 9}]
        }
      }
    },
    "s2": {}
  },
  "selectivities": {"s1.k = s2.k": 0.01, "s1.k = s1.k": 0.5},
  "filters": {"a.x > 100": 0.25},
  "network": {
    "default": {"bytes_per_s": 1000000, "latency_s": 0.05},
    "links": [{"from": "paris", "to": "oslo", "bytes_per_s": 5000}]
  },
  "result_tuple_bytes": 80,
  "unbounded_window_s": 600
}"""


def test_a_full_file_is_read_field_by_field() -> None:
    known = parse_statistics(FULL)
    assert known.streams["s1"].tuple_bytes == 40.5
    assert known.stream("s2") == StreamStatistics()
    attribute = known.attribute("s1", "k")
    assert attribute.heavy_hitters == (("a", 30), (7, 1.5))
    assert attribute.histogram == (Bin(0, 10, 20, 9),)
    assert known.selectivity("s2", "k", "s1", "k") == 0.01
    assert known.selectivity("s1", "k", "s1", "k") == 0.5
    assert known.filters == {"a.x > 100": 0.25}
    assert known.network.link("oslo", "paris") == Link(5000, 0.0)
    assert known.network.link("oslo", "rome") == Link(1000000, 0.05)
    assert (known.result_tuple_bytes, known.unbounded_window_s) == (80, 600)


def test_an_empty_file_is_all_defaults() -> None:
    assert parse_statistics("{}") == Statistics()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"streams": {"s1": {"rate_per_s": -3}}}', "streams.s1.rate_per_s: must be positive, got -3"),
        (
            '{"streams": {"s1": {"rate_per_s": "fast"}}}',
            'streams.s1.rate_per_s: must be a number, got "fast"',
        ),
        (
            '{"streams": {"s1": {"rate_per_s": NaN}}}',
            "streams.s1.rate_per_s: must be a finite number, got NaN",
        ),
        ('{"streams": {"s1": {"rate": 3}}}', "streams.s1.rate: is not known here; write one of rate_per_s, "),
        ('{"streams": []}', "streams: must be an object {...}, got []"),
        ("[]", "the file: must be an object {...}, got []"),
        ('{"version": 2}', "version: must be 1, got 2"),
        ('{"streams":\n  {,}}', "line 2, column 4: not JSON: "),
        (
            '{"streams": {"s1": {"attributes": {"k": {"heavy_hitters": [{"value": 1}]}}}}}',
            "streams.s1.attributes.k.heavy_hitters[0].rate_per_s: is missing",
        ),
        (
            '{"streams": {"s": {"attributes": {"k": {"heavy_hitters": [{"value": [], "rate_per_s": 1}]}}}}}',
            "streams.s.attributes.k.heavy_hitters[0].value: must be text, a number or a boolean, got []",
        ),
        (
            '{"streams": {"s1": {"attributes": {"k": {"distinct": 0}}}}}',
            "streams.s1.attributes.k.distinct: must be at least 1, got 0",
        ),
        (
            '{"streams": {"s1": {"attributes": {"k": {"histogram": '
            '[{"low": 2, "high": 1, "rate_per_s": 1, "distinct": 1}]}}}}}',
            "streams.s1.attributes.k.histogram[0].high: must be above low (2), got 1",
        ),
        ('{"selectivities": {"s1.k": 1}}', "selectivities.s1.k: must name an equality, such as "),
        (
            '{"selectivities": {"s1.k = s2.k": 2}}',
            "selectivities.s1.k = s2.k: must be between 0 and 1, got 2",
        ),
        (
            '{"network": {"links": [{"from": "a", "to": "b", "latency_s": -1}]}}',
            "network.links[0].latency_s: must be zero or more, got -1",
        ),
        ('{"unbounded_window_s": 0}', "unbounded_window_s: must be positive, got 0"),
    ],
)
def test_mistakes_are_named_by_their_path(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_statistics(text)
    assert str(refused.value).startswith(message)


def test_a_files_name_comes_first(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.json: cannot read statistics"):
        read_statistics(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text('{"version": 9}')
    with pytest.raises(ConfigurationError, match=r"bad\.json: version: must be 1, got 9"):
        read_statistics(tmp_path / "bad.json")


@st.composite
def statistics(draw: st.DrawFn) -> Statistics:
    names = ["s1", "s2", "Größe"]
    streams = {}
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        rate = draw(quantities(1.0, 100.0))
        attributes = draw(st.dictionaries(st.sampled_from("kx"), attribute_statistics(rate)))
        site = draw(st.sampled_from([None, "paris"]))
        streams[name] = StreamStatistics(rate, draw(quantities(1.0, 9.0)), site, attributes)
    pairs = st.frozensets(st.sampled_from(["s1.k", "s2.k", "s2.x"]), min_size=1, max_size=2)
    selectivities = draw(st.dictionaries(pairs, quantities(0.0, 1.0)))
    link = st.builds(Link, quantities(1.0, 1e6), quantities(0.0, 1.0))
    ends = st.tuples(st.sampled_from("ab"), st.sampled_from("ab"))
    network = draw(st.builds(Network, st.dictionaries(ends, link), st.one_of(st.just(Link()), link)))
    size = draw(st.sampled_from([None, 3.5]))
    return Statistics(
        streams,
        selectivities,
        filters={"s1.k > 1": 0.5},
        network=network,
        result_tuple_bytes=size,
        unbounded_window_s=draw(quantities(1.0, 9e3)),
    )


@given(statistics())
@settings(max_examples=60)
def test_what_is_written_is_read_back_and_fits_the_schema(known: Statistics) -> None:
    text = format_statistics(known)
    assert parse_statistics(text) == known
    assert format_statistics(parse_statistics(text)) == text
    check(json.loads(text), SCHEMA, "")


def test_files_are_written_as_text(tmp_path: Path) -> None:
    known = parse_statistics(FULL)
    write_statistics(known, tmp_path / "s.json")
    assert read_statistics(tmp_path / "s.json") == known


@pytest.mark.parametrize("path", sorted(PAPERS.glob("*.stats.json")), ids=lambda path: path.stem)
def test_every_example_fits_the_schema_and_is_read(path: Path) -> None:
    check(json.loads(path.read_text()), SCHEMA, "")
    read_statistics(path)


def test_the_documented_file_is_a_true_one() -> None:
    page = (DOCS / "statistics.md").read_text()
    text = page.split("```json\n")[1].split("```")[0]
    check(json.loads(text), SCHEMA, "")
    assert parse_statistics(text).network.link("oslo", "paris").bytes_per_s == 250000


def test_the_schema_refuses_what_the_reader_refuses() -> None:
    check(json.loads(FULL), SCHEMA, "")
    for wrong in (
        {"streams": {"s1": {"rate_per_s": -3}}},
        {"streams": {"s1": {"rate": 3}}},
        {"selectivities": {"s1.k": 1}},
        {"network": {"links": [{"from": "a"}]}},
        {"version": 2},
    ):
        with pytest.raises(AssertionError):
            check(wrong, SCHEMA, "")


TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "boolean": bool,
}


def check(data: Any, schema: dict[str, Any], path: str) -> None:
    """As much of JSON Schema as ours uses; a keyword it does not know fails, so the check cannot rot."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if isinstance(data, dict):
        assert set(schema.get("required", ())) <= set(data), path
        for key, value in data.items():
            assert re.search(schema.get("propertyNames", {}).get("pattern", ""), key), f"{path}.{key}"
            inner = schema["properties"].get(key) if "properties" in schema else None
            inner = inner or schema.get("additionalProperties")
            assert inner, f"{path}.{key} is not known"
            check(value, inner, f"{path}.{key}")
    for keyword, wanted in schema.items():
        match keyword:
            case "type":
                kinds = wanted if isinstance(wanted, list) else [wanted]
                assert isinstance(data, tuple(kind for name in kinds for kind in _types(name))), path
            case "const":
                assert data == wanted, path
            case "minimum":
                assert data >= wanted, path
            case "maximum":
                assert data <= wanted, path
            case "exclusiveMinimum":
                assert data > wanted, path
            case "minLength":
                assert len(data) >= wanted, path
            case "items":
                for index, value in enumerate(data):
                    check(value, wanted, f"{path}[{index}]")
            case "properties" | "required" | "additionalProperties" | "propertyNames":
                pass
            case "$schema" | "$defs" | "title" | "description":
                pass
            case _:
                raise AssertionError(f"the check does not know the keyword {keyword}")


def _types(name: str) -> tuple[type, ...]:
    kind = TYPES[name]
    return kind if isinstance(kind, tuple) else (kind,)
