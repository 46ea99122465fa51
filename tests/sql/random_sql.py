"""Queries from a grammar: right ones, whose answers the oracle knows, and hostile ones made from them.

A right expression is written twice: plainly, and with whatever a person or a program may put between and
around its words, which must change nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.sql import parse_pipeline

SECOND_US = 1_000_000
DECLARED = "".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, w STRING, ts TIMESTAMP) "
    f"WITH (format = 'parquet', path = '{name}', event_time = 'ts', lateness = '2 seconds');\n"
    for name in ("s1", "s2")
)
STREAMS = parse_pipeline(DECLARED).streams
JOIN = "FROM s1 [RANGE 5 SECONDS] AS a, s2 [{window}] AS b WHERE a.k = b.k"
WINDOWS = ("RANGE 4 SECONDS", "TUMBLE 6 SECONDS", "range 1 min 30 s", "RANGE INTERVAL 3 SECONDS")

DENIED = (
    "reflect('java.lang.System', 'getenv', 'HOME')", "`java_method`('java.lang.Runtime', 'getRuntime')",
    "SYSTEM . builtin. /* x */ Try_Reflect (a.w)",
    "identifier('ref' || 'lect')('java.lang.System', 'exit', 0)", "explode(array(a.k))",
    "posexplode(array(1))", "Stack(2, 1, 2)", "window(a.ts, '2 s', '1 s')",
    "(SELECT max(value) FROM text.`/etc/passwd`)", "a.k IN (SELECT 1)", "EXISTS (SELECT 1)", ":x", "?",
    "row_number() OVER (ORDER BY a.k)", "a.nothing", "nobody.k", "session.x", "system.session.y", "k",
    "(" * 60 + "a.k" + ")" * 60, "NOT " * 80 + "true", "CASE WHEN true THEN " * 50 + "1" + " END" * 50,
    " + ".join(["a.k"] * 600), "a.k::INT" + "::INT" * 500, "-" + " -" * 40 + "1", "'never closed",
    '"nor this', "`nor that", "/* nor this", "a.k)", "(a.k", "a.k]", "a.tags[", "; SELECT 1",
)  # fmt: skip
ODD = (
    "'{'", "'{}'", "'{sampled.sparkSession}'", "'%s %n'", "'\\''", "'\\\\'", "r'\\'", "''''", "'--'",
    "'/*'", "'; DROP'", "'\u202e\u200b'", "'\U0001f600'", "'a\nb'", "'${env:HOME}'", "0x1F", "1e400",
    "9999999999999999999999", "-0.0", "9223372036854775808", "X'GG'", "DATE '0000-00-00'",
    "TIMESTAMP 'never'", "INTERVAL 999999999 YEARS", "1/0", "CAST('x' AS INT)", "a.k.b.c.d", "a.w[0]",
    "a.k(1)", "raise_error('mine')", "unknown_function(a.k)", "sum(sum(a.k))", "count(*)", "a.*", "NULL",
    "DEFAULT", "CURRENT_USER", "user", "answer_time", "x -> x", "[1, 2]", "{'a': 1}", "a.k COLLATE UNICODE",
    "a.k AT TIME ZONE 'x'", "a.w LIKE ANY ('a', 'b')", "try_cast(a.w AS INT)",
    "array_sort(array(3, 1), (x, y) -> x - y)", "transform(array(a.k), reflect -> reflect + 1)", "\x00",
    "\x1b[31m", "\u00a0", "$$x$$", "@x", "#x", "a.k = a.k = b.k", "decode(a.w, 'x', 'y')",
    "named_struct('a', 1).a",
)  # fmt: skip


@dataclass(frozen=True)
class Written:
    """An expression, plainly and otherwise."""

    plain: str
    noisy: str


def draw_expressions(random_: random.Random, count: int) -> list[Written]:
    """Expressions over a and b that have a value for every pair of tuples."""
    kinds = (_number, _text, _truth)
    trees = [random_.choice(kinds)(random_, 3) for _ in range(count)]
    return [Written(_spell(tree, None), _spell(tree, random_)) for tree in trees]


def draw_condition(random_: random.Random) -> Written:
    """A condition that most pairs of tuples meet."""
    tree = ("(", ("a.v", "<=", "20"), "OR", *_truth(random_, 2), ")")
    return Written(_spell(tree, None), _spell(tree, random_))


def draw_query(random_: random.Random) -> Written:
    """A query of two or three inputs: joined by commas or ON, each pair once or DISTINCT or in groups."""
    inputs = [("a", "s1"), ("b", "s2"), ("c", random_.choice(("s1", "s2")))][: random_.choice((2, 2, 3))]
    tables: list[Tree] = []
    for alias, stream in inputs:
        window = ("[", *random_.choice(WINDOWS).split(" "), "]")
        tables.append(random_.choice(((stream, window, "AS", alias), (stream, "AS", alias, window))))
    equal = [("a.k", "=", "b.k"), ("c.k", "=", random_.choice(("a.k", "b.k")))][: len(inputs) - 1]
    equal = [random_.choice((each, each[::-1])) for each in equal]
    condition: Tree = ("(", ("a.v", "<=", "20"), "OR", *_truth(random_, 2), ")")
    joined: Tree
    if random_.random() < 0.5:
        listed = [part for table in tables for part in (",", table)][1:]
        joined = (*listed, "WHERE", *(part for each in equal for part in (each, "AND")), condition)
    else:
        others = [("JOIN", table, "ON", on) for table, on in zip(tables[1:], equal, strict=True)]
        joined = (tables[0], *others, "WHERE", condition)
    kinds = (_number, _text, _truth)
    chosen = [random_.choice(kinds)(random_, 2) for _ in range(random_.randint(1, 3))]
    match random_.randrange(4):
        case 0:
            key, totals = (
                chosen[0],
                ("count", "(", "*", ")", "AS", "n", ",", "max", "(", "b.v", ")", "AS", "m"),
            )
            having = random_.choice(((), ("HAVING", "count", "(", "*", ")", ">", "1")))
            tree: Tree = ("SELECT", key, "AS", "x", ",", *totals, "FROM", joined, "GROUP", "BY", key, *having)
        case 1:
            tree = ("SELECT", "DISTINCT", *_named(chosen), "FROM", joined)
        case _:
            tree = ("SELECT", *_named(chosen), ",", "answer_time", "FROM", joined)
    return Written(_spell(tree, None), _spell(tree, random_))


def _named(trees: list[Tree]) -> Tree:
    return tuple(part for number, tree in enumerate(trees) for part in (",", tree, "AS", f"x{number}"))[1:]


def draw_batches(random_: random.Random) -> list[MicroBatch]:
    """Two micro-batches of tuples with few keys, NULLs and odd texts among them."""
    texts = ("x", "Two x", "", " y ", "reflect('x')", None)

    def tuples(batch: int) -> list[Tuple]:
        times = [(batch * 3 + random_.randrange(4)) * SECOND_US for _ in range(12)]
        values = (None, *range(25))
        return [
            Tuple(time, {"k": random_.randrange(4), "v": random_.choice(values), "w": random_.choice(texts)})
            for time in times
        ]

    return [{stream.name: tuples(batch) for stream in STREAMS} for batch in range(2)]


def draw_hostile(random_: random.Random) -> tuple[str, bool]:
    """A query with something in it that may be wrong, and whether it must be refused."""
    denied = random_.random() < 0.4
    piece = random_.choice(DENIED if denied else ODD)
    around = random_.choice(
        ("{}", "({})", "coalesce({}, {})", "concat({}, a.w)", "abs({}) + a.v", "{} IS NULL")
    )
    bad = around.replace("{}", piece)
    good = draw_expressions(random_, 1)[0].noisy
    join = JOIN.format(window=random_.choice(WINDOWS))
    places: tuple[Callable[[], str], ...] = (
        lambda: f"SELECT {bad} AS x, {good} AS y {join}",
        lambda: f"SELECT {good} AS y, b.k {join} AND ({bad}) = ({bad})",
        lambda: f"SELECT a.k, count(*) AS n {join} AND {bad} IS NOT NULL GROUP BY a.k",
        lambda: f"SELECT {bad} AS x, max(a.v) AS m {join} GROUP BY {bad} HAVING max({bad}) IS NOT NULL",
        lambda: f"SELECT DISTINCT {bad} {join}",
        lambda: f"SELECT a.k FROM s1 [RANGE 1 MINUTE] AS a JOIN s2 AS b ON a.k = b.k AND {bad} = b.v",
    )
    return random_.choice(places)(), denied


Tree = tuple["Tree | str", ...]


_NO_NUMBER = (
    "CAST",
    "(",
    "NULL",
    "AS",
    "BIGINT",
    ")",
)  # NULL by itself is of any type, and abs(NULL) a double


def _number(random_: random.Random, depth: int) -> Tree:
    if depth == 0:
        leaves: tuple[Tree | str, ...] = ("a.k", "a.v", "b.v", "b.k", "0", "1", "7", _NO_NUMBER)
        return (random_.choice(leaves),)
    left, right = _number(random_, depth - 1), _number(random_, depth - 1)
    match random_.randrange(7):
        case 0:
            return ("(", left, random_.choice("+-"), right, ")")
        case 1:
            return ("(", left, random_.choice(("%", "div")), random_.choice("357"), ")")
        case 2:
            return ("coalesce", "(", left, ",", right, ",", "2", ")")
        case 3:
            return ("CASE", "WHEN", _truth(random_, depth - 1), "THEN", left, "ELSE", right, "END")
        case 4:
            return ("abs", "(", left, ")")
        case 5:
            return ("length", "(", _text(random_, depth - 1), ")")
        case _:
            return ("if", "(", _truth(random_, depth - 1), ",", left, ",", right, ")")


def _text(random_: random.Random, depth: int) -> Tree:
    if depth == 0:
        return (random_.choice(("a.w", "b.w", "'x'", "'two words'", "'reflect('", "'{a}'", "''", "'--'")),)
    inner = _text(random_, depth - 1)
    match random_.randrange(5):
        case 0:
            return (random_.choice(("upper", "lower", "trim")), "(", inner, ")")
        case 1:
            return ("concat", "(", inner, ",", _text(random_, depth - 1), ")")
        case 2:
            return ("coalesce", "(", inner, ",", "'none'", ")")
        case 3:
            return ("substring", "(", inner, ",", "1", ",", "2", ")")
        case _:
            return ("(", inner, "||", "'!'", ")")


def _truth(random_: random.Random, depth: int) -> Tree:
    if depth == 0:
        return random_.choice((("(", "a.v", ">", "b.v", ")"), ("true",), ("(", "a.w", "IS", "NULL", ")")))
    left, right = _number(random_, depth - 1), _number(random_, depth - 1)
    match random_.randrange(6):
        case 0:
            return ("(", left, random_.choice(("<", ">=", "<>", "<=>", "=")), right, ")")
        case 1:
            return ("(", _truth(random_, depth - 1), random_.choice(("AND", "OR")), "true", ")")
        case 2:
            return ("(", "NOT", _truth(random_, depth - 1), ")")
        case 3:
            return ("(", left, "IN", "(", "1", ",", "2", ",", "7", ")", ")")
        case 4:
            return ("(", left, "BETWEEN", "0", "AND", right, ")")
        case _:
            return ("(", _text(random_, depth - 1), "LIKE", "'%x%'", ")")


def _spell(tree: Tree, random_: random.Random | None) -> str:
    """The words of a tree as text; with `random_` in any case, with comments and spaces between them."""
    words = list(_words(tree))
    if random_ is None:
        return " ".join(words)
    return "".join(_gap(random_) + _respelt(random_, word) for word in words)


def _words(tree: Tree) -> Iterator[str]:
    for part in tree:
        if isinstance(part, str):
            yield part
        else:
            yield from _words(part)


def _respelt(random_: random.Random, word: str) -> str:
    if word.startswith("'"):
        return word
    if "." in word and random_.random() < 0.3:
        return ".".join(f"`{part}`" for part in word.split("."))
    return random_.choice((word, word, word.upper(), word.lower()))


def _gap(random_: random.Random) -> str:
    return random_.choice((" ", " ", " ", "\n", "\t ", " /* reflect('x') */ ", " -- it's\n", "  /* ' */"))
