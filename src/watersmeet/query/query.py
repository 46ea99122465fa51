"""A bound query: streams under windows, the join graph, and what to answer. Frozen, printable, Spark-free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace

from watersmeet.query.declared.site import Link, Site
from watersmeet.query.declared.view import Branch
from watersmeet.query.duration import format_duration
from watersmeet.query.expression import ColumnRef, Expr
from watersmeet.query.join_graph import JoinGraph
from watersmeet.query.join_tree import JoinNode, expressions, nodes
from watersmeet.query.stream import Sink, Stream
from watersmeet.query.window import UNBOUNDED, Window

MAX_INPUTS = 16


@dataclass(frozen=True)
class Input:
    """One occurrence of a stream in FROM. Filters apply after the window: `ROWS 100` counts every tuple.

    A window that `is_derived` was not written: it follows from the conditions on event times. It decides what
    is kept, and not what is an answer.
    """

    alias: str
    stream: Stream
    window: Window
    filters: tuple[Expr, ...] = ()
    is_derived: bool = False

    def pretty(self) -> str:
        name = self.stream.name if self.alias == self.stream.name else f"{self.stream.name} AS {self.alias}"
        filters = f" where {' and '.join(expr.pretty() for expr in self.filters)}" if self.filters else ""
        derived = " derived from the conditions" if self.is_derived else ""
        return f"{name} {self.window.pretty()}{derived}{filters}"

    @property
    def is_shareable(self) -> bool:
        """Whether it is a stream whose tuples have known lifetimes on arrival, as a shared dataflow needs."""
        return not self.window.counts_rows and not self.stream.view

    def as_written(self) -> Input:
        """The input under its written window, or none."""
        return replace(self, window=UNBOUNDED, is_derived=False) if self.is_derived else self


@dataclass(frozen=True)
class Reading:
    """A declared stream that an input reads: by itself, or in a branch of a view.

    Readings are numbered. The first of an input has the input's number, further branches have those after
    all inputs.
    """

    number: int
    input: int
    stream: Stream
    branch: Branch | None = None


@dataclass(frozen=True)
class Output:
    """One column of the answer."""

    name: str
    expr: Expr

    def pretty(self) -> str:
        speaks_for_itself = self.expr.sql == self.name or self.expr.sql.endswith(f".{self.name}")
        return self.expr.sql if speaks_for_itself else f"{self.expr.sql} AS {self.name}"


@dataclass(frozen=True)
class Aggregate:
    """GROUP BY over the answers valid at each tick; ticks are the multiples of `emit_every_us`.

    With `at_end` a tick stands at the end of a window of that size: what counts was valid just before it.
    """

    group_by: tuple[Expr, ...]
    emit_every_us: int
    having: Expr | None = None
    at_end: bool = False

    @property
    def before_us(self) -> int:
        """How long before a tick the answers count that it samples."""
        return 1 if self.at_end else 0

    def pretty(self) -> str:
        groups = f"group by {', '.join(expr.pretty() for expr in self.group_by)} " if self.group_by else ""
        having = f"having {self.having.pretty()} " if self.having else ""
        emit = "emit at the end of every" if self.at_end else "emit every"
        return f"{groups}{having}{emit} {format_duration(self.emit_every_us)}"


@dataclass(frozen=True)
class Query:
    """A continuous multi-way window join.

    A query with outer, semi or anti joins has a `tree` of them. Its inputs are all of the tree's, its graph
    says which attributes agree wherever tuples meet, and its residual conditions apply to the tree's answers.
    """

    inputs: tuple[Input, ...]
    graph: JoinGraph
    select: tuple[Output, ...]
    _: KW_ONLY
    residual: tuple[Expr, ...] = ()
    tree: JoinNode | None = None
    distinct: bool = False
    aggregate: Aggregate | None = None
    sink: str | None = None
    text: str = ""

    def __post_init__(self) -> None:
        if tuple(item.alias for item in self.inputs) != self.graph.aliases:
            raise ValueError("the join graph must name the query's inputs in order")
        if self.tree is not None and sorted(self.tree.aliases) != sorted(self.graph.aliases):
            raise ValueError("the tree of joins must hold each of the query's inputs once")

    def input(self, alias: str) -> Input:
        return next(item for item in self.inputs if item.alias == alias)

    def as_written(self) -> Query:
        """The query without derived windows: the same answers, from a state that grows for ever.

        With a tree of joins windows stay, as they say for how long a tuple waits for a match.
        """
        if self.tree is not None:
            return self
        return replace(self, inputs=tuple(item.as_written() for item in self.inputs))

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The declared streams read, by themselves or in views, each once, in FROM order."""
        return tuple({each.name: each for item in self.inputs for each in item.stream.origins}.values())

    @property
    def read(self) -> tuple[Stream, ...]:
        """The streams and views that FROM names, each once."""
        return tuple({item.stream.name: item.stream for item in self.inputs}.values())

    @property
    def answer_streams(self) -> tuple[Stream, ...]:
        """The streams of answers that it reads, and those that these read: each before it is read."""
        found: dict[str, Stream] = {}
        for stream in self.streams:
            if stream.answers is not None:
                found |= {each.name: each for each in (*stream.answers.answer_streams, stream)}
        return tuple(found.values())

    @property
    def tables(self) -> tuple[Stream, ...]:
        """The tables that views are joined with, each once."""
        found = (table for item in self.inputs for branch in item.stream.view for table in branch.tables)
        return tuple({table.name: table for table in found}.values())

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Every stream that an input reads, in FROM order."""
        found, following = [], len(self.inputs)
        for number, item in enumerate(self.inputs):
            branches = item.stream.view or (None,)
            for index, branch in enumerate(branches):
                stream = item.stream if branch is None else branch.stream
                found.append(Reading(following if index else number, number, stream, branch))
                following += index > 0
        return tuple(found)

    @property
    def progress_names(self) -> tuple[str, ...]:
        """By the number of a reading, the stream that tells how far it has come."""
        return tuple(each.stream.name for each in sorted(self.readings, key=lambda each: each.number))

    @property
    def is_delayed(self) -> bool:
        """Whether answers wait for the watermark: ROWS windows, DISTINCT and aggregates do."""
        return self.joins_delayed or self.combines_answers

    @property
    def combines_answers(self) -> bool:
        """Whether what comes out is made of several answers, as DISTINCT values and groups are."""
        return self.distinct or self.aggregate is not None

    @property
    def waits_at_end(self) -> bool:
        """Whether the end of the input lets out answers: delayed ones, and rows that wait for a match."""
        return self.is_delayed or self.tree is not None

    @property
    def joins_delayed(self) -> bool:
        """Whether the join itself waits for the watermark, as places in a stream are known only then."""
        return any(item.window.counts_rows for item in self.inputs)

    @property
    def numbers_rows(self) -> bool:
        """Whether rows have to be numbered over whole streams before they are joined."""
        return any(item.window.numbers_rows for item in self.inputs)

    def routing_classes(self, alias: str) -> tuple[int, ...]:
        """The classes by whose keys an input's tuples may be sent to different buckets.

        Tuples of one value of a PARTITION BY have to meet, so there a key must follow from the value.
        """
        item, classes = self.input(alias), self.graph.classes_of(alias)
        if not item.window.partition:
            return classes
        return tuple(index for index in classes if self._follows_from_value(item, index))

    def _follows_from_value(self, item: Input, index: int) -> bool:
        cls = self.graph.classes[index]
        attribute = cls.of(item.alias)
        if attribute is None or not attribute.expr.is_column:
            return False
        name = attribute.expr.columns[0].column
        column = item.stream.column(name)
        assert column is not None
        # Zeros of either sign are one value, and two texts.
        return name in item.window.partition and (
            column.type == cls.type or column.type not in ("float", "double")
        )

    def payload(self, alias: str) -> tuple[str, ...]:
        """The columns of an input that answers need: those of the residual conditions and the SELECT list.

        With a tree of joins also those that decide which combinations match, save for keys.
        """
        return self._columns_in([*self._answer_exprs(), *self._tree_exprs()], alias)

    def bare_keys(self, alias: str) -> dict[int, str]:
        """The columns by which an input is joined just as they are, uncast, by their class."""
        found = {}
        for index in self.graph.classes_of(alias):
            cls = self.graph.classes[index]
            attribute = cls.of(alias)
            assert attribute is not None
            name = attribute.expr.columns[0].column if attribute.expr.is_column else None
            column = self.input(alias).stream.column(name) if name is not None else None
            if column is not None and column.type == cls.type:
                found[index] = column.name
        return found

    def answer_columns(self, alias: str) -> tuple[str, ...]:
        """The columns of an input that are read after the join: by WHERE, the SELECT list and groups."""
        return self._columns_in(self._answer_exprs(), alias)

    def _columns_in(self, exprs: Iterable[Expr], alias: str) -> tuple[str, ...]:
        needed = {ref.column for expr in exprs for ref in expr.columns if ref.alias == alias}
        return tuple(column.name for column in self.input(alias).stream.columns if column.name in needed)

    def _tree_exprs(self) -> tuple[Expr, ...]:
        return tuple(expressions(self.tree)) if self.tree else ()

    @property
    def selected(self) -> tuple[Expr, ...]:
        """The expressions of the SELECT list, of GROUP BY and of HAVING."""
        exprs = [output.expr for output in self.select]
        if self.aggregate:
            exprs += [*self.aggregate.group_by, *([self.aggregate.having] if self.aggregate.having else [])]
        return tuple(exprs)

    def _answer_exprs(self) -> tuple[Expr, ...]:
        return (*self.residual, *self.selected)

    def columns_read(self, alias: str) -> tuple[str, ...]:
        """Every column of an input that the query reads anywhere: payload, keys, filters and event time."""
        exprs = [*self._answer_exprs(), *self._tree_exprs(), *self.input(alias).filters]
        exprs += [attribute.expr for cls in self.graph.classes if (attribute := cls.of(alias))]
        equalities = [each for node in nodes(self.tree) for each in node.equalities] if self.tree else []
        exprs += [side for each in equalities for side in (each.left, each.right)]
        refs = {ref for expr in exprs for ref in expr.columns}
        stream = self.input(alias).stream
        return tuple(
            column.name
            for column in stream.columns
            if ColumnRef(alias, column.name) in refs or column.name == stream.event_time
        )

    def pretty(self) -> str:
        """The query as a reader wants it: inputs, joins, conditions, answers."""
        lines = [f"into {self.sink}"] if self.sink else []
        for item in self.inputs:
            lines += [f"from {item.pretty()}", *(f"     {each.pretty()}" for each in item.stream.view)]
            answers = [each.name for each in item.stream.origins if each.answers is not None]
            lines += [f"     {name} is what query {name} answers" for name in answers]
        if self.tree:
            lines += self.tree.pretty().split("\n")
        else:
            lines += [
                f"join {line}" if n == 0 else f"     {line}" for n, line in enumerate(_lines(self.graph))
            ]
        lines += [f"{'where' if self.tree else 'residual'} {expr.pretty()}" for expr in self.residual]
        distinct = "distinct " if self.distinct else ""
        lines.append(f"select {distinct}{', '.join(output.pretty() for output in self.select)}")
        if self.aggregate:
            lines.append(self.aggregate.pretty())
        return "\n".join(lines)


def _lines(graph: JoinGraph) -> list[str]:
    return graph.pretty().split("\n")


@dataclass(frozen=True)
class Pipeline:
    """A pipeline file, bound: its streams, its sinks, its queries in order, its sites and their links."""

    streams: tuple[Stream, ...] = ()
    sinks: tuple[Sink, ...] = ()
    queries: tuple[Query, ...] = ()
    sites: tuple[Site, ...] = ()
    links: tuple[Link, ...] = ()
    views: tuple[Stream, ...] = ()
    tables: tuple[Stream, ...] = ()
    answer_streams: tuple[Stream, ...] = ()  # each may read those before it

    @property
    def every_query(self) -> tuple[Query, ...]:
        """The queries of streams of answers, and those that are run for themselves."""
        answers = (stream.answers for stream in self.answer_streams if stream.answers is not None)
        return (*answers, *self.queries)

    def sink(self, name: str) -> Sink | None:
        return next((sink for sink in self.sinks if sink.name.lower() == name.lower()), None)

    def pretty(self) -> str:
        parts = [f"stream {stream.pretty()}" for stream in self.streams]
        parts += [
            f"table {table.name}({', '.join(c.pretty() for c in table.columns)})" for table in self.tables
        ]
        parts += [f"view {view.pretty()}" for view in self.views]
        for stream in self.answer_streams:
            assert stream.answers is not None
            parts.append(f"stream {stream.pretty()}\n{stream.answers.pretty()}")
        parts += [f"sink {sink.pretty()}" for sink in self.sinks]
        parts += [f"site {site.pretty()}" for site in self.sites]
        parts += [f"link {link.pretty()}" for link in self.links]
        parts += [query.pretty() for query in self.queries]
        return "\n\n".join(parts)
