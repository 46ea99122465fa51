"""Binding: a SELECT as written, and the streams it names, into a `Query`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from watersmeet.query import Column, JoinGraph, Link, Pipeline, Query, Sink, Site, Stream
from watersmeet.sql.binding.conditions import sort_conditions
from watersmeet.sql.binding.disconnected import refuse_disconnected
from watersmeet.sql.binding.functions import refuse_functions
from watersmeet.sql.binding.grouping import bind_aggregate
from watersmeet.sql.binding.outputs import bind_outputs
from watersmeet.sql.binding.repeatable import refuse_unrepeatable
from watersmeet.sql.binding.tables import bind_tables
from watersmeet.sql.syntax.declare import (
    StreamDeclaration,
    check_dead_letters,
    declare_sink,
    declare_stream,
    refuse_duplicates,
)
from watersmeet.sql.syntax.declare_sites import at_declared_site, declare_links, declare_sites
from watersmeet.sql.syntax.dialect import CreateLink, CreateSink, CreateSite, CreateStream
from watersmeet.sql.syntax.nesting import TOO_DEEP
from watersmeet.sql.syntax.parse import Select, parse_statement_list
from watersmeet.sql.syntax.refuse import Source, span_of, suggest
from watersmeet.sql.syntax.unsupported import refuse_unsupported

Infer = Callable[[Stream], Sequence[Column]]


@dataclass(frozen=True)
class Statements:
    """A pipeline file, parsed and not yet bound: a stream declared without columns has none yet."""

    source: Source
    declarations: tuple[StreamDeclaration, ...]
    sinks: tuple[Sink, ...]
    selects: tuple[Select, ...]
    sites: tuple[Site, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def streams(self) -> tuple[Stream, ...]:
        return tuple(declaration.stream for declaration in self.declarations)


def parse_statements(text: str, file: str = "") -> Statements:
    """A pipeline file's declarations, and its SELECTs for `bind_select` to bind."""
    source = Source(text, file)
    statements = parse_statement_list(source)
    streams = [item for item in statements if isinstance(item, CreateStream)]
    sinks = [item for item in statements if isinstance(item, CreateSink)]
    refuse_duplicates(source, ((item.this.name, span_of(item.this)) for item in streams), "stream")
    refuse_duplicates(source, ((item.this.name, span_of(item.this)) for item in sinks), "sink")
    declarations = tuple(declare_stream(source, item) for item in streams)
    sites = declare_sites(source, [each for each in statements if isinstance(each, CreateSite)], declarations)
    links = [each for each in statements if isinstance(each, CreateLink)]
    declared = Statements(
        source,
        tuple(at_declared_site(each, sites) for each in declarations),
        tuple(declare_sink(source, item) for item in sinks),
        tuple(item for item in statements if isinstance(item, Select)),
        sites,
        declare_links(source, links, sites, declarations),
    )
    filled = [select.sink.name for select in declared.selects if select.sink is not None]
    check_dead_letters(declared.declarations, declared.sinks, filled)
    return declared


def parse_pipeline(text: str, *, file: str = "", infer: Infer | None = None) -> Pipeline:
    """A pipeline file, bound. `infer` finds the columns of a stream that was declared without any."""
    statements = parse_statements(text, file)
    streams = tuple(
        declaration.complete(infer(declaration.stream))
        if infer is not None and not declaration.stream.columns
        else declaration.stream
        for declaration in statements.declarations
    )
    catalog = {stream.name: stream for stream in streams}
    queries = tuple(bind_select(select, catalog, statements.sinks) for select in statements.selects)
    return Pipeline(streams, statements.sinks, queries, statements.sites, statements.links)


def bind_query(text: str, streams: Iterable[Stream]) -> Query:
    """One SELECT over given streams."""
    source = Source(text)
    statements = parse_statement_list(source)
    first, *more = statements
    if not isinstance(first, Select) or first.sink is not None:
        at = first.span if isinstance(first, Select) else span_of(first)
        raise source.refuse("only a SELECT can stand here", at, "Declare streams and sinks elsewhere.")
    if more:
        at = more[0].span if isinstance(more[0], Select) else span_of(more[0])
        raise source.refuse("one SELECT at a time", at, "Bind each statement by itself.")
    return bind_select(first, {stream.name: stream for stream in streams})


def bind_select(
    select: Select, catalog: Mapping[str, Stream], sinks: Iterable[Sink] = (), *, shared: bool = False
) -> Query:
    """The query a SELECT means over the streams of a catalog; `shared` if a shared dataflow is to run it."""
    try:
        return _bind(select, {name.lower(): each for name, each in catalog.items()}, tuple(sinks), shared)
    except RecursionError:
        raise select.source.refuse(TOO_DEEP, select.span) from None


def _bind(select: Select, catalog: Mapping[str, Stream], sinks: tuple[Sink, ...], shared: bool) -> Query:
    source = select.source
    sink = _find_sink(select, sinks)
    tree = refuse_unsupported(source, select.tree, select.span)
    refuse_functions(select, shared=shared)
    refuse_unrepeatable(select, sink, catalog.values())
    tables = bind_tables(source, tree, select.span, catalog)
    scope = tables.scope
    where = tree.args.get("where")
    conditions = sort_conditions(
        scope, [*tables.conditions, *([where.this] if where is not None else [])], tables.using
    )
    graph = JoinGraph(tuple(item.alias for item in scope.inputs), conditions.classes)
    if not graph.is_connected:
        raise refuse_disconnected(select, scope, graph, conditions)
    distinct = tree.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise source.refuse("DISTINCT ON is not supported", distinct, "Write SELECT DISTINCT, or GROUP BY.")
    outputs, drafts = bind_outputs(scope, tree.expressions)
    return Query(
        inputs=tuple(
            replace(item, filters=tuple(conditions.filters.get(item.alias, ()))) for item in scope.inputs
        ),
        graph=graph,
        select=outputs,
        residual=tuple(conditions.residual),
        distinct=distinct is not None,
        aggregate=bind_aggregate(select, scope, outputs, drafts),
        sink=sink.name if sink else None,
        text=source.slice(select.span),
    )


def _find_sink(select: Select, sinks: tuple[Sink, ...]) -> Sink | None:
    if select.sink is None:
        return None
    name = select.sink.name
    for sink in sinks:
        if sink.name.lower() == name.lower():
            return sink
    known = [sink.name for sink in sinks]
    advice = suggest(name, known, "sink")
    if not known:
        advice = f"Declare it: CREATE SINK {name} WITH (format = 'parquet', path = '...')."
    raise select.source.refuse(f"there is no sink {name}", select.sink, advice)
