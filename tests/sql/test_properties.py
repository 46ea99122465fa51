"""What is put into a query's text comes out of binding, and no text does worse than be refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import SqlError
from watersmeet.query import UNBOUNDED, Column, Stream, Window, range_us, rows, tumble_rows, tumble_us
from watersmeet.sql import bind_query, parse_pipeline

COLUMNS = ("k0", "k1", "k2", "k3")
STREAM = Stream("s", (*(Column(name, "bigint") for name in COLUMNS), Column("ts", "timestamp")), "ts")
UNITS_US = {"ms": 1_000, "SECONDS": 1_000_000, "min": 60_000_000, "Hour": 3_600_000_000, "d": 86_400_000_000}
GOLDEN = Path(__file__).parent / "golden"


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, Window]:
    size, unit = draw(st.integers(1, 10_000)), draw(st.sampled_from(sorted(UNITS_US)))
    return draw(
        st.sampled_from(
            [
                (f"[RANGE {size} {unit}]", range_us(size * UNITS_US[unit])),
                (f"[tumble '{size} {unit}']", tumble_us(size * UNITS_US[unit])),
                (f"[ROWS {size}]", rows(size)),
                (f"[TUMBLE {size} rows]", tumble_rows(size)),
                ("", UNBOUNDED),
            ]
        )
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[set[tuple[int, str]]]]:
    """A number of inputs, and disjoint classes of their columns that connect them all."""
    count = draw(st.integers(2, 6))
    taken: set[tuple[int, str]] = set()
    classes: list[set[tuple[int, str]]] = []
    for newer in range(1, count):
        older = draw(st.integers(0, newer - 1))
        near = [cls for cls in classes if any(item == older for item, _ in cls)]
        home = draw(st.sampled_from([None, *near]))
        left = next(((older, name) for name in COLUMNS if (older, name) not in taken), None)
        if home is None and left is None:
            home = near[0]
        if home is None:
            assert left is not None
            home = {left}
            classes.append(home)
        home.add((newer, draw(st.sampled_from(COLUMNS))))
        taken |= home
    return count, classes


@settings(max_examples=150)
@given(graphs(), st.data())
def test_windows_and_classes_come_out_as_put_in(
    graph: tuple[int, list[set[tuple[int, str]]]], data: st.DataObject
) -> None:
    count, classes = graph
    written = [data.draw(windows()) for _ in range(count)]
    tables = [f"s {text} AS a{n}" if n % 2 else f"S AS A{n} {text}" for n, (text, _) in enumerate(written)]
    equalities = []
    for cls in classes:
        names = data.draw(st.permutations([f"a{item}.{name}" for item, name in sorted(cls)]))
        if data.draw(st.booleans()):
            equalities.append(" = ".join(names))
        else:
            equalities += [
                f"{names[data.draw(st.integers(0, n - 1))]}={names[n]}" for n in range(1, len(names))
            ]
    text = (
        f"SELECT a0.ts FROM {', '.join(tables)} WHERE {' AND '.join(data.draw(st.permutations(equalities)))}"
    )
    query = bind_query(text, [STREAM])
    assert [item.window for item in query.inputs] == [window for _, window in written]
    bound = {
        frozenset((int(a.alias[1:]), a.expr.columns[0].column) for a in cls.attributes)
        for cls in query.graph.classes
    }
    assert bound == {frozenset(cls) for cls in classes}
    assert all(cls.type == "bigint" for cls in query.graph.classes)
    assert query.residual == ()
    assert query.graph.is_connected


def bind_or_refuse(text: str) -> bool:
    """Anything but success and SqlError fails the test; a refusal must point into the text. Whether bound."""
    refusal = None
    try:
        parse_pipeline(text)
    except SqlError as error:
        refusal = error
    assert refusal is None or 1 <= refusal.line <= text.count("\n") + 1
    return refusal is None


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_any_text_is_bound_or_refused(text: str) -> None:
    bind_or_refuse(text)


KEYWORDS = """
    SELECT FROM WHERE GROUP BY HAVING EMIT EVERY JOIN LEFT ON USING AS AND OR NOT IN BETWEEN CASE WHEN END IS
    NULL CREATE STREAM SINK WITH INSERT INTO UNION ALL DISTINCT OVER LATERAL VIEW INTERVAL RANGE ROWS TUMBLE
    UNBOUNDED s a b s.k0 a.k0 b.k1 a.* k1 ts answer_time count sum lower BIGINT ARRAY<INT> TIMESTAMP MINUTES
"""
SIGNS = r"""
    ( ) [ ] , . ; = < > <=> + - / * 'x' "y" ` ' 10 0 1.5 10s ms
    -- /* */ /*+ :: : ? @ { } -> => | || & % ! ~ \ $
"""
WORDS = tuple(f"{KEYWORDS} {SIGNS}".split())


@settings(max_examples=400)
@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_any_words_are_bound_or_refused(words: str) -> None:
    declared = (
        "CREATE STREAM s (k0 BIGINT, k1 STRING, ts TIMESTAMP) WITH (format = 'rate', event_time = 'ts');\n"
    )
    bind_or_refuse(declared + words)
    bind_or_refuse(f"{declared}SELECT {words} FROM s [ROWS 5] AS a, s AS b WHERE a.k0 = b.k0")
    bind_or_refuse(f"{declared}SELECT a.k0 FROM s AS a, s AS b WHERE a.k0 = b.k0 {words}")
    bind_or_refuse(f"{declared}SELECT a.k0 FROM s {words}")


@pytest.mark.parametrize("seed", range(3))
def test_mutated_queries_are_bound_or_refused(seed: int, long_mode: bool) -> None:
    random_ = random.Random(seed)
    shared = (GOLDEN / "streams.sql").read_text()
    queries, refusals = (
        [path.read_text().split("\n=====\n")[0] for path in sorted(GOLDEN.glob(f"{folder}/*.txt"))]
        for folder in ("queries", "refusals")
    )
    texts = [*queries, *refusals]
    bound = []
    for _ in range(4_000 if long_mode else 150):
        text = random_.choice(random_.choice((queries, queries, queries, refusals)))
        for _ in range(random_.choice((1, 1, 2, 4))):
            start = random_.randrange(len(text) + 1)
            end = min(len(text), start + random_.choice((0, 0, 1, 2, 8)))
            other = random_.choice(texts)
            cut = random_.randrange(len(other) + 1)
            piece = random_.choice((random_.choice(WORDS), other[cut : cut + random_.randint(0, 12)], ""))
            text = text[:start] + piece + text[end:]
        bound.append(bind_or_refuse(shared + text))
    assert 0.05 < sum(bound) / len(bound) < 0.9  # else one of the two was hardly tried


@pytest.mark.parametrize("opening", ["(", "lower(", "NOT ", "a.k0 + (", "CASE WHEN "])
def test_deep_nesting_is_refused_not_a_crash(opening: str) -> None:
    closing = ")" if "(" in opening else ""
    bind_or_refuse(f"SELECT {opening * 5_000}1{closing * 5_000} FROM s")


def test_long_conjunctions_are_bound() -> None:
    conditions = " AND ".join(f"a.k0 > {n}" for n in range(1_000))
    query = bind_query(f"SELECT a.k0 FROM s AS a WHERE {conditions}", [STREAM])
    assert len(query.inputs[0].filters) == 1_000
