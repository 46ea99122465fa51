"""A bound query: streams under windows, the join graph, and what to answer. Frozen, printable, Spark-free."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from watersmeet.query.duration import format_duration
from watersmeet.query.expression import ColumnRef, Expr
from watersmeet.query.join_graph import JoinGraph
from watersmeet.query.site import Link, Site
from watersmeet.query.stream import Sink, Stream
from watersmeet.query.window import Window

MAX_INPUTS = 16


@dataclass(frozen=True)
class Input:
    """One occurrence of a stream in FROM. Filters apply after the window: `ROWS 100` counts every tuple."""

    alias: str
    stream: Stream
    window: Window
    filters: tuple[Expr, ...] = ()

    def pretty(self) -> str:
        name = self.stream.name if self.alias == self.stream.name else f"{self.stream.name} AS {self.alias}"
        filters = f" where {' and '.join(expr.pretty() for expr in self.filters)}" if self.filters else ""
        return f"{name} {self.window.pretty()}{filters}"


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
    """GROUP BY over the answers valid at each tick; ticks are the multiples of `emit_every_us`."""

    group_by: tuple[Expr, ...]
    emit_every_us: int
    having: Expr | None = None

    def pretty(self) -> str:
        groups = f"group by {', '.join(expr.pretty() for expr in self.group_by)} " if self.group_by else ""
        having = f"having {self.having.pretty()} " if self.having else ""
        return f"{groups}{having}emit every {format_duration(self.emit_every_us)}"


@dataclass(frozen=True)
class Query:
    """A continuous multi-way window join."""

    inputs: tuple[Input, ...]
    graph: JoinGraph
    select: tuple[Output, ...]
    _: KW_ONLY
    residual: tuple[Expr, ...] = ()
    distinct: bool = False
    aggregate: Aggregate | None = None
    sink: str | None = None
    text: str = ""

    def __post_init__(self) -> None:
        if tuple(item.alias for item in self.inputs) != self.graph.aliases:
            raise ValueError("the join graph must name the query's inputs in order")

    def input(self, alias: str) -> Input:
        return next(item for item in self.inputs if item.alias == alias)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams read, each once, in FROM order."""
        return tuple({item.stream.name: item.stream for item in self.inputs}.values())

    @property
    def is_delayed(self) -> bool:
        """Whether answers wait for the watermark: ROWS windows, DISTINCT and aggregates do."""
        return self.joins_delayed or self.distinct or self.aggregate is not None

    @property
    def joins_delayed(self) -> bool:
        """Whether the join itself waits for the watermark, as places in a stream are known only then."""
        return any(item.window.counts_rows for item in self.inputs)

    def payload(self, alias: str) -> tuple[str, ...]:
        """The columns of an input that answers need: those of the residual conditions and the SELECT list."""
        needed = {ref.column for expr in self._answer_exprs() for ref in expr.columns if ref.alias == alias}
        return tuple(column.name for column in self.input(alias).stream.columns if column.name in needed)

    def _answer_exprs(self) -> tuple[Expr, ...]:
        exprs = [*self.residual, *(output.expr for output in self.select)]
        if self.aggregate:
            exprs += [*self.aggregate.group_by, *([self.aggregate.having] if self.aggregate.having else [])]
        return tuple(exprs)

    def columns_read(self, alias: str) -> tuple[str, ...]:
        """Every column of an input that the query reads anywhere: payload, keys, filters and event time."""
        exprs = [*self._answer_exprs(), *self.input(alias).filters]
        exprs += [attribute.expr for cls in self.graph.classes if (attribute := cls.of(alias))]
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
        lines += [f"from {item.pretty()}" for item in self.inputs]
        lines += [f"join {line}" if n == 0 else f"     {line}" for n, line in enumerate(_lines(self.graph))]
        lines += [f"residual {expr.pretty()}" for expr in self.residual]
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

    def sink(self, name: str) -> Sink | None:
        return next((sink for sink in self.sinks if sink.name.lower() == name.lower()), None)

    def pretty(self) -> str:
        parts = [f"stream {stream.pretty()}" for stream in self.streams]
        parts += [f"sink {sink.pretty()}" for sink in self.sinks]
        parts += [f"site {site.pretty()}" for site in self.sites]
        parts += [f"link {link.pretty()}" for link in self.links]
        parts += [query.pretty() for query in self.queries]
        return "\n\n".join(parts)
