"""Random queries and micro-batches by an explicit seed: a case is its seed, and can be run again.

    python -m pytest tests/testing/test_random_cases.py --case-seed 17

Keys come from small domains in which one value is frequent, windows are wide beside the gaps between tuples,
and disorder is mostly within the lateness: so nearly every case has answers, and every tuple outlives some.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

from tests.kernel.feeding import SMALL as SMALL_KERNEL
from tests.strategies import KEY_DOMAINS, ORIGINS_US
from watersmeet.kernel import Shed, StateLimit
from watersmeet.oracle.oracle import MicroBatch, Tuple
from watersmeet.query import (
    UNBOUNDED,
    Aggregate,
    Attribute,
    AttributeClass,
    Column,
    ColumnRef,
    Expr,
    Input,
    JoinGraph,
    Output,
    Query,
    Stream,
    Window,
    column_expr,
    last_of_each,
    range_us,
    rows,
    tumble_rows,
    tumble_us,
)
from watersmeet.query.values import canonical
from watersmeet.spark.tuning import DEFAULT, Tuning
from watersmeet.testing import Setup

# Sizes that the few tuples of a case reach.
SMALL = Tuning(
    piece_bytes=400,
    chunk_rows=8,
    answer_rows=5,
    batches_per_frame=2,
    messages_per_frame=4,
    handed_on_at_once=2,
    state_value_bytes=2000,
    small_chunk_bytes=1000,
    tokens_kept=3,
    late_rows=1,
    late_bytes=1,
    read_rows=7,
    chosen_rows=3,
    kernel=replace(SMALL_KERNEL, block_bytes=3000),
)

VARIANTS = (
    "rows",
    "files",
    "late columns",
    "hot values",
    "hot files",
    "numbered",
    "distinct",
    "aggregate",
    "pipeline",
    "rewrite",
    "shared",
    "limit none",
    "limit large",
    "limit small",
)
FILES = ("files", "late columns", "hot files", "partitioned files")
PARTITIONED = "partitioned"  # these have tests of their own
DISTURBANCES = ("cached", "restored", "moved", "failing", "restarted")

SPAN_US = 60
TUPLES = {2: 22, 3: 15, 4: 10}  # of each stream, by number of inputs
PLAIN_KEYS = ("bigint", "bigint", "string", "int", "date", "decimal(10,2)", "double", "boolean", "binary")
PAYLOADS: dict[str, tuple[str, Sequence[Any]]] = {
    "note": ("string", (None, "", "hello", "a long note " * 40)),
    "ratio": ("double", (None, 0.5, float("nan"))),
    "tags": ("array<string>", (None, [], ["red", None], ["blue"])),
    "spot": ("struct<x:bigint,label:string>", (None, {"x": 1, "label": "l"})),
}


@dataclass(frozen=True)
class RandomCase:
    """Queries by name (one, unless they share a dataflow), what arrives, and how all is run."""

    seed: int
    variant: str
    disturbance: str
    queries: dict[str, Query]
    batches: tuple[MicroBatch, ...]
    setup: Setup
    flush: bool

    @property
    def query(self) -> Query:
        return self.queries[""]

    @property
    def command(self) -> str:
        return f"python -m pytest tests/testing/test_random_cases.py --case-seed {self.seed}"

    def pretty(self) -> str:
        """What a failing case prints: how to run it again, and what it is."""
        lines = [f"seed {self.seed}: {self.variant}, {self.disturbance}; again: {self.command}"]
        lines += [f"{name}\n{query.pretty()}" for name, query in self.queries.items()]
        return "\n".join([*lines, f"{self.setup}", *map(str, self.batches)])


def draw_case(seed: int, tuples: Mapping[int, int] = TUPLES, variant: str | None = None) -> RandomCase:
    """The case of a seed, with so many tuples of each stream; the variants and disturbances take turns."""
    rng = random.Random(seed)
    variant = variant or VARIANTS[seed % len(VARIANTS)]
    disturbance = DISTURBANCES[seed // len(VARIANTS) % len(DISTURBANCES)]
    queries = _shared_queries(rng) if variant == "shared" else {"": _Drawer(rng, variant).query()}
    streams = {stream.name: stream for query in queries.values() for stream in query.streams}
    batches = _batches(rng, tuple(streams.values()), list(queries.values()), variant, tuples)
    return RandomCase(
        seed, variant, disturbance, queries, batches, _setup(rng, seed, variant), rng.random() < 0.7
    )


def _setup(rng: random.Random, seed: int, variant: str) -> Setup:
    setup = Setup(
        partitions=rng.choice([1, 2, 3, 4, 6]),
        workers=rng.choice([1, 2, 3]),
        map_tasks=rng.choice([1, 2, 3]),
        seed=seed,
        tuning=DEFAULT if variant != "late columns" and rng.random() < 0.3 else SMALL,
    )
    match variant:
        case "files" | "partitioned files":
            return replace(setup, direct_files=True)
        case "late columns":
            return replace(setup, direct_files=True, partitions=rng.choice([1, 2, 3]))
        case "hot values":
            return replace(setup, hot_values=True, hot_min_rows=8, partitions=rng.choice([2, 3, 4, 6]))
        case "hot files":
            return replace(
                setup, direct_files=True, hot_values=True, hot_min_rows=8, partitions=rng.choice([2, 3, 4, 6])
            )
        case "pipeline" | "rewrite":
            return replace(setup, routing=variant, direct_files=rng.random() < 0.3)
        case "shared":
            return replace(setup, direct_files=rng.random() < 0.3)
        case "limit none":
            return replace(setup, state_limit=StateLimit(1000, Shed.NONE))
        case "limit large":
            return replace(
                setup, state_limit=StateLimit(10**9, rng.choice([Shed.RANDOM, Shed.OLDEST, Shed.LEAST]))
            )
        case "limit small":
            limit = StateLimit(
                rng.choice([2500, 5000, 10_000]), rng.choice([Shed.RANDOM, Shed.OLDEST, Shed.LEAST])
            )
            return replace(setup, state_limit=limit)
    return setup


@dataclass(frozen=True)
class _Drawer:
    """Draws one query of its own streams."""

    rng: random.Random
    variant: str

    def query(self) -> Query:
        rng = self.rng
        count = rng.choice([2, 2, 3, 3, 4])
        aliases = "abcd"[:count]
        stream_of = self._occurrences(count)
        members = draw_members(rng, count)
        is_file = self.variant in FILES
        keys = PLAIN_KEYS if is_file else (*PLAIN_KEYS, "array<bigint>", "timestamp")
        types = [rng.choice(keys) for _ in members]
        streams = [self._stream(n, stream_of, members, types) for n in range(max(stream_of) + 1)]
        inputs = []
        for n, alias in enumerate(aliases):
            filters = (_over_one(alias),) if rng.random() < self._filter_share / count else ()
            stream = streams[stream_of[n]]
            inputs.append(Input(alias, stream, self._window(n, stream), filters))
        classes = [
            self._class(number, types[number], [inputs[n] for n in inside])
            for number, inside in enumerate(members)
        ]
        select, aggregate = self._answer(inputs)
        residual = (_no_more(aliases[0], aliases[-1]),) if rng.random() < 0.3 else ()
        query = Query(
            inputs=tuple(inputs),
            graph=JoinGraph(tuple(aliases), tuple(classes)),
            select=select,
            residual=residual,
            distinct=self.variant.endswith("distinct"),
            aggregate=aggregate,
        )
        return replace(query, text=query.pretty())

    @property
    def _filter_share(self) -> float:
        shares = {"files": 0.2, "late columns": 0.0, "hot files": 0.0, "partitioned files": 0.2}
        return shares.get(self.variant, 0.6)

    def _occurrences(self, count: int) -> list[int]:
        """Which stream each input reads; a self-join reads an earlier one again."""
        streams = [0]
        for _ in range(count - 1):
            again = self.rng.random() < 0.2
            streams.append(self.rng.choice(streams) if again else max(streams) + 1)
        return streams

    def _stream(
        self, number: int, stream_of: Sequence[int], members: Sequence[Sequence[int]], types: Sequence[str]
    ) -> Stream:
        columns = []
        for cls, inside in enumerate(members):
            occurrences = sum(stream_of[n] == number for n in inside)
            # Some keys are narrower than the type they are compared in, and are cast.
            narrower = types[cls] == "bigint" and self.rng.random() < 0.2
            type_ = "int" if narrower else types[cls]
            columns += [Column(f"{prefix}{cls}", type_) for prefix in "kj"[: min(occurrences, 2)]]
        columns.append(Column("v", "bigint"))
        plain = self.variant in FILES
        names = ["note", "ratio"] if plain else list(PAYLOADS)
        chosen = set(self.rng.sample(names, self.rng.choice([0, 1, 2])))
        chosen |= {"note"} if self.variant == "late columns" else set()
        columns += [Column(name, PAYLOADS[name][0]) for name in sorted(chosen)]
        columns.append(Column("ts", "timestamp"))
        lateness = self.rng.choice([0, 1, 5, 10])
        return Stream(f"s{number + 1}", tuple(columns), "ts", lateness_us=lateness)

    def _window(self, number: int, stream: Stream) -> Window:
        rng, size = self.rng, self.rng.choice([5, 7, 10, 15, 20, 30])
        if self.variant.startswith(PARTITIONED):
            return self._last_of_each(number, stream, size)
        if self.variant in ("hot values", "hot files"):
            return range_us(size)
        if self.variant.startswith("numbered"):
            counted = [lambda: rows(rng.randint(2, 6)), lambda: tumble_rows(rng.randint(2, 6))]
            return rng.choice(counted)() if number == 0 or rng.random() < 0.4 else range_us(size)
        if number == 0 and self.variant in ("aggregate", "limit small"):
            return range_us(size)
        return rng.choice([range_us(size), range_us(size), tumble_us(size), UNBOUNDED])

    def _last_of_each(self, number: int, stream: Stream, size: int) -> Window:
        """Partitioned by the keys, so that every bucket counts for itself, or by other columns as well."""
        rng = self.rng
        if number > 0 and rng.random() < 0.6:
            return rng.choice([range_us(size), range_us(size), UNBOUNDED, rows(6)])
        keys = [column.name for column in stream.columns if column.name[0] in "kj"]
        keys = [name for name in keys if not str(stream.column(name)).count("array")] or ["v"]
        by = rng.choice([keys, keys, [*keys, "v"], rng.sample(keys, 1), ["v"]])
        return last_of_each(by, rng.choice([1, 1, 2, 3]))

    def _class(self, number: int, type_: str, inputs: Sequence[Input]) -> AttributeClass:
        attributes = []
        for item in inputs:
            columns = [name for name in (f"k{number}", f"j{number}") if item.stream.column(name)]
            chosen = item.stream.column(self.rng.choice(columns))
            assert chosen is not None
            expr = column_expr(item.alias, chosen.name, chosen.type)
            function = {"string": "lower", "array<bigint>": "array_sort"}.get(type_)
            if function and self._filter_share and self.rng.random() < 0.3:
                expr = replace(expr, sql=f"{function}({expr.sql})")
            attributes.append(Attribute(item.alias, expr))
        return AttributeClass(tuple(attributes), type_)

    def _answer(self, inputs: Sequence[Input]) -> tuple[tuple[Output, ...], Aggregate | None]:
        rng, first, last = self.rng, inputs[0].alias, inputs[-1].alias
        columns = [(item.alias, column) for item in inputs for column in item.stream.columns]
        if not self.variant.endswith(("distinct", "aggregate")):
            chosen = {(item.alias, "v") for item in inputs}
            chosen |= {(alias, c.name) for alias, c in rng.sample(columns, min(4, len(columns)))}
            if self.variant == "late columns":
                chosen |= {(item.alias, "note") for item in inputs}
            outputs = [Output(f"{alias}_{name}", column_expr(alias, name)) for alias, name in sorted(chosen)]
            if rng.random() < 0.2:
                outputs.append(Output("sum", Expr(f"{first}.v + 1", (ColumnRef(first, "v"),), "bigint")))
            return (*outputs, Output("answer_time", Expr("answer_time", uses_answer_time=True))), None
        some = rng.sample(columns, rng.choice([1, 2]))
        outputs = [Output(f"{alias}_{c.name}", column_expr(alias, c.name, c.type)) for alias, c in some]
        if self.variant.endswith("distinct"):
            return tuple(outputs), None
        grouped = rng.choice([[], outputs[:1], outputs])
        having = Expr("count(*) > 1") if rng.random() < 0.25 else None
        aggregates = (
            Output("n", Expr("count(*)", type="bigint")),
            Output("total", Expr(f"sum({first}.v)", (ColumnRef(first, "v"),), "bigint")),
            Output("kinds", Expr(f"count(DISTINCT {last}.v)", (ColumnRef(last, "v"),), "bigint")),
            Output("tick", Expr("answer_time", uses_answer_time=True)),
        )
        group_by = tuple(output.expr for output in grouped)
        return (*grouped, *aggregates), Aggregate(group_by, rng.randint(1, 15), having)


def draw_members(rng: random.Random, count: int) -> list[tuple[int, ...]]:
    """Which inputs, by position, each attribute class joins: the papers' shapes, and wider ones."""
    everyone = tuple(range(count))
    chain = list(pairwise(everyone))
    shapes: list[list[tuple[int, ...]]] = [
        [everyone],
        [everyone, everyone],
        chain,
        [(0, n) for n in everyone[1:]],
        [chain[0], *chain],
    ]
    if count > 2:
        shapes += [[*chain, (0, count - 1)], list(combinations(everyone, 2)), [everyone[:-1], everyone[1:]]]
    return rng.choice(shapes)


def _shared_queries(rng: random.Random) -> dict[str, Query]:
    """A few queries over the same streams, some of which have joins in common."""
    columns = [Column(name, "bigint") for name in ("x", "y", "v")]
    streams = [
        Stream(f"s{n}", (*columns, Column("ts", "timestamp")), "ts", lateness_us=rng.choice([0, 1, 5]))
        for n in range(3)
    ]
    found = {}
    for number in range(rng.randint(2, 4)):
        count = rng.choice([2, 2, 3])
        aliases = rng.sample("abcdef", count)
        windows = [
            rng.choice([range_us(10), range_us(20), range_us(20), tumble_us(15), UNBOUNDED]) for _ in aliases
        ]
        inputs = tuple(
            Input(
                alias,
                rng.choice(streams) if rng.random() < 0.2 else streams[n],
                windows[n],
                (_over_one(alias),) if rng.random() < 0.2 else (),
            )
            for n, alias in enumerate(aliases)
        )
        classes = tuple(
            AttributeClass(
                tuple(
                    Attribute(aliases[n], column_expr(aliases[n], rng.choice("xy"), "bigint")) for n in inside
                ),
                "bigint",
            )
            for inside in draw_members(rng, count)
        )
        outputs = [Output(f"{alias}_v", column_expr(alias, "v", "bigint")) for alias in aliases]
        if rng.random() < 0.3:
            outputs.append(
                Output("more", Expr(f"{aliases[0]}.v + 1", (ColumnRef(aliases[0], "v"),), "bigint"))
            )
        residual = (_no_more(aliases[0], aliases[-1]),) if rng.random() < 0.3 else ()
        time = Output("answer_time", Expr("answer_time", uses_answer_time=True))
        found[f"q{number}"] = Query(
            inputs, JoinGraph(tuple(aliases), classes), (*outputs, time), residual=residual
        )
    return found


def _batches(
    rng: random.Random,
    streams: Sequence[Stream],
    queries: Sequence[Query],
    variant: str,
    tuples: Mapping[int, int],
) -> tuple[MicroBatch, ...]:
    """Tuples of every stream cut into batches by time of arrival, some out of order and some too late."""
    origin = rng.choice(ORIGINS_US)
    classes = max(len(query.graph.classes) for query in queries)
    count = tuples[max(len(query.inputs) for query in queries)]
    hot = variant in ("hot values", "hot files")
    arrivals = {}
    for position, stream in enumerate(streams):
        often = 2 * count if hot and position == 0 else count
        arrivals[stream.name] = _arrivals(rng, stream, origin, often, classes)
    cuts = sorted(rng.randrange(SPAN_US + 10) for _ in range(rng.choice([2, 3, 4, 5])))
    bounds = [-1, *cuts, 10**6]
    return tuple(
        {
            name: [tuple_ for arrival, tuple_ in arrived if low < arrival <= high]
            for name, arrived in arrivals.items()
        }
        for low, high in pairwise(bounds)
    )


def _arrivals(
    rng: random.Random, stream: Stream, origin: int, count: int, classes: int
) -> list[tuple[int, Tuple]]:
    """Tuples with the time each arrives: most within the lateness."""
    found = []
    first: dict[Any, dict[str, Any]] = {}
    nested = [column.name for column in stream.columns if column.type.startswith(("array", "struct"))]
    for _ in range(count):
        ts, delay = rng.randrange(SPAN_US), rng.choice([0, 0, 0, 1, 2])
        late = stream.lateness_us * delay // 2 + (20 if rng.random() < 0.05 else 0)
        values = {
            column.name: _value(rng, column, classes)
            for column in stream.columns
            if column.name != stream.event_time
        }
        # Under ROWS windows nested values decide no order: tuples alike in all else have them alike.
        scalars = (ts, canonical({name: value for name, value in values.items() if name not in nested}))
        model = first.setdefault(scalars, values)
        found.append((ts + late, Tuple(origin + ts, {**values, **{name: model[name] for name in nested}})))
    if rng.random() < 0.5:
        found[-1] = found[0]  # a duplicate
    return sorted(found, key=lambda arrival: arrival[0])


def _value(rng: random.Random, column: Column, classes: int) -> Any:
    if column.name in PAYLOADS:
        return rng.choice(PAYLOADS[column.name][1])
    if column.name == "v":
        return rng.choice([None, 0, 1, 2, 3, 4, 5])
    domain = KEY_DOMAINS[column.type]
    favourites = [domain[0]] * (3 * classes)  # with many classes, only frequent values ever meet in all
    return rng.choice([*favourites, *domain, None])


def _over_one(alias: str) -> Expr:
    return Expr(f"{alias}.v > 1", (ColumnRef(alias, "v"),), "boolean")


def _no_more(left: str, right: str) -> Expr:
    return Expr(f"{left}.v <= {right}.v", (ColumnRef(left, "v"), ColumnRef(right, "v")), "boolean")
