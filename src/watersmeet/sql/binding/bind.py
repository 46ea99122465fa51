"""Binding: a SELECT as written, and the streams it names, into a `Query`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from watersmeet.query import Column, JoinGraph, Link, Pipeline, Query, Sink, Site, Stream
from watersmeet.sql.binding.answer_streams import refuse_aggregate, stream_of, stream_outputs
from watersmeet.sql.binding.conditions import sort_conditions
from watersmeet.sql.binding.disconnected import refuse_disconnected
from watersmeet.sql.binding.functions import refuse_functions
from watersmeet.sql.binding.grouping import bind_aggregate
from watersmeet.sql.binding.joins import (
    BoundJoins,
    bind_joins,
    refuse_endless,
    refuse_late_answers,
)
from watersmeet.sql.binding.outputs import bind_outputs
from watersmeet.sql.binding.repeatable import refuse_unrepeatable, refuse_unrepeatable_view
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.binding.tables import bind_tables
from watersmeet.sql.binding.time_conditions import derive_windows
from watersmeet.sql.binding.views import bind_view, fold_tables, with_views
from watersmeet.sql.syntax.declare import (
    StreamDeclaration,
    check_dead_letters,
    declare_sink,
    declare_stream,
    refuse_duplicates,
)
from watersmeet.sql.syntax.declare_sites import at_declared_site, declare_links, declare_sites
from watersmeet.sql.syntax.declare_tables import declare_table
from watersmeet.sql.syntax.dialect import (
    CreateAnswers,
    CreateLink,
    CreateSink,
    CreateSite,
    CreateStream,
    CreateTable,
    CreateView,
)
from watersmeet.sql.syntax.nesting import TOO_DEEP
from watersmeet.sql.syntax.parse import Select, find_word, parse_statement_list
from watersmeet.sql.syntax.refuse import SPAN, Source, span_of, suggest
from watersmeet.sql.syntax.subqueries import cut_subqueries
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
    views: tuple[Select, ...] = ()  # `sink` is where each is named
    tables: tuple[Stream, ...] = ()
    answers: tuple[Select, ...] = ()  # streams of answers; `sink` is where each is named

    @property
    def streams(self) -> tuple[Stream, ...]:
        return tuple(declaration.stream for declaration in self.declarations)


def parse_statements(text: str, file: str = "") -> Statements:
    """A pipeline file's declarations, and its SELECTs for `bind_select` to bind."""
    source = Source(text, file)
    statements = parse_statement_list(source)
    streams = [item for item in statements if isinstance(item, CreateStream)]
    views = [item for item in statements if isinstance(item, CreateView)]
    answers = [item for item in statements if isinstance(item, CreateAnswers)]
    tables = [item for item in statements if isinstance(item, CreateTable)]
    sinks = [item for item in statements if isinstance(item, CreateSink)]
    named = [*streams, *answers, *tables, *views]
    refuse_duplicates(source, ((item.this.name, span_of(item.this)) for item in named), "stream")
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
        tuple(Select(source, each.expression, span_of(each.expression), each.this) for each in views),
        tuple(declare_table(source, each) for each in tables),
        tuple(Select(source, each.expression, span_of(each.expression), each.this) for each in answers),
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
    catalog = {stream.name: stream for stream in (*streams, *statements.tables)}
    derived = bind_derived(statements, catalog)
    queries = tuple(bind_select(select, catalog, statements.sinks) for select in statements.selects)
    return Pipeline(
        streams,
        statements.sinks,
        queries,
        statements.sites,
        statements.links,
        tuple(each for each in derived if each.answers is None),
        statements.tables,
        tuple(each for each in derived if each.answers is not None),
    )


def bind_derived(statements: Statements, catalog: dict[str, Stream]) -> tuple[Stream, ...]:
    """The views and streams of answers of a file, each of which may read those before it.

    The catalog gets them too.
    """
    in_order = sorted((*statements.views, *statements.answers), key=lambda select: select.span.start)
    return tuple(
        _add_view(select, catalog) if select in statements.views else _add_answers(select, catalog)
        for select in in_order
    )


def bind_stream(name: str, text: str, streams: Iterable[Stream]) -> Stream:
    """The view that a SELECT is over given streams, as CREATE VIEW declares it."""
    return _add_view(_named(name, _only_select(Source(text))), {stream.name: stream for stream in streams})


def _named(name: str, select: Select) -> Select:
    """A SELECT as a declaration of this name has it."""
    named = exp.to_identifier(name, quoted=True)
    named.meta[SPAN] = (select.span.start, select.span.end)
    return replace(select, sink=named)


def _add_view(select: Select, catalog: dict[str, Stream]) -> Stream:
    """Binds a view, which may read the streams and views of the catalog, and adds it there."""
    assert select.sink is not None
    refuse_functions(select, shared=False, is_view=True)
    refuse_unrepeatable_view(select, f"view {select.sink.name}", catalog.values())
    known = {name.lower(): each for name, each in catalog.items()}
    try:
        view = bind_view(select.source, select.sink, select.tree, known)
    except RecursionError:
        raise select.source.refuse(TOO_DEEP, select.span) from None
    catalog[view.name] = view
    return view


def bind_answers(name: str, text: str, streams: Iterable[Stream]) -> Stream:
    """The stream that the answers of a SELECT are, as CREATE STREAM ... AS declares it."""
    return _add_answers(_named(name, _only_select(Source(text))), {each.name: each for each in streams})


def _add_answers(select: Select, catalog: dict[str, Stream]) -> Stream:
    """Binds a query whose answers are a stream, and adds that to the catalog."""
    assert select.sink is not None
    name = select.sink.name
    refuse_unrepeatable_view(select, f"stream {name}", catalog.values())
    known = {each.lower(): stream for each, stream in catalog.items()}
    try:
        query = _bind(replace(select, sink=None), known, (), shared=False, stream=name)
    except RecursionError:
        raise select.source.refuse(TOO_DEEP, select.span) from None
    catalog[name] = stream_of(name, query)
    return catalog[name]


def bind_query(text: str, streams: Iterable[Stream]) -> Query:
    """One SELECT over given streams."""
    return bind_select(_only_select(Source(text)), {stream.name: stream for stream in streams})


def _only_select(source: Source) -> Select:
    """The one SELECT that a text is."""
    statements = parse_statement_list(source)
    first, *more = statements
    if not isinstance(first, Select) or first.sink is not None:
        at = first.span if isinstance(first, Select) else span_of(first)
        raise source.refuse("only a SELECT can stand here", at, "Declare streams and sinks elsewhere.")
    if more:
        at = more[0].span if isinstance(more[0], Select) else span_of(more[0])
        raise source.refuse("one SELECT at a time", at, "Bind each statement by itself.")
    return first


def bind_select(
    select: Select, catalog: Mapping[str, Stream], sinks: Iterable[Sink] = (), *, shared: bool = False
) -> Query:
    """The query a SELECT means over the streams of a catalog; `shared` if a shared dataflow is to run it."""
    try:
        return _bind(select, {name.lower(): each for name, each in catalog.items()}, tuple(sinks), shared)
    except RecursionError:
        raise select.source.refuse(TOO_DEEP, select.span) from None


def _bind(
    select: Select,
    catalog: Mapping[str, Stream],
    sinks: tuple[Sink, ...],
    shared: bool,
    stream: str | None = None,
) -> Query:
    """The query; with `stream`, the answers are to be a stream of this name."""
    source = select.source
    sink = _find_sink(select, sinks)
    tree = refuse_unsupported(source, select.tree, select.span)
    if shared:
        _refuse_shared_views(select)
    refuse_functions(select, shared=shared)
    refuse_unrepeatable(select, sink, catalog.values())
    tree, known = fold_tables(source, tree, with_views(source, tree, catalog))
    select = replace(select, tree=tree)
    tables = bind_tables(source, tree, select.span, known)
    if shared:
        _refuse_shared_answers(select, tables.scope)
    where, subqueries = cut_subqueries(tree)
    if subqueries or not tables.is_inner:
        joins = bind_joins(tree, tables, where, subqueries, known)
        return _bind_joins(select, sink, joins, shared, stream)
    scope = tables.scope
    trees = [*tables.conditions, *where]
    conditions = sort_conditions(scope, trees, tables.using)
    graph = JoinGraph(tuple(item.alias for item in scope.inputs), conditions.classes)
    if not graph.is_connected:
        raise refuse_disconnected(select, scope, graph, conditions)
    distinct = _is_distinct(select)
    outputs, drafts = bind_outputs(scope, tree.expressions)
    aggregate = bind_aggregate(select, scope, outputs, drafts)
    if stream is not None:
        if aggregate is not None:
            refuse_aggregate(select, stream)
        outputs = stream_outputs(select, stream, outputs, drafts, distinct=distinct)
    has_lifetimes = distinct or aggregate is not None
    is_written = has_lifetimes or (shared and all(item.is_shareable for item in scope.inputs))
    inputs = scope.inputs if is_written else derive_windows(scope, trees, tables.windowless)
    return Query(
        inputs=tuple(replace(item, filters=tuple(conditions.filters.get(item.alias, ()))) for item in inputs),
        graph=graph,
        select=outputs,
        residual=tuple(conditions.residual),
        distinct=distinct,
        aggregate=aggregate,
        sink=sink.name if sink else None,
        text=source.slice(select.span),
    )


def _refuse_shared_answers(select: Select, scope: Scope) -> None:
    for item in scope.inputs:
        if item.stream.answers is not None:
            raise select.source.refuse(
                f"{item.alias} are the answers of a query, and a shared dataflow serves streams alone",
                find_word(select.source, select.span, "FROM"),
                "Run both queries with watersmeet run.",
            )


def _refuse_shared_views(select: Select) -> None:
    """Refuses views that a query brings along: what those compute is not limited as its own values are."""
    found: list[exp.Expr] = [*select.tree.find_all(exp.With)]
    found += [
        each
        for each in select.tree.find_all(exp.Subquery)
        if isinstance(each.parent, exp.From | exp.Join) and isinstance(each.this, exp.Query)
    ]
    if found:
        raise select.source.refuse(
            "a shared dataflow takes the views that were declared when it was created, and no others",
            find_word(select.source, select.span, "FROM"),
            "Declare it there: CREATE VIEW name AS SELECT ...; or run the query by itself.",
        )


def _bind_joins(
    select: Select, sink: Sink | None, joins: BoundJoins, shared: bool, stream: str | None
) -> Query:
    """The query whose joins are not all inner ones as they are written."""
    tree = select.tree
    outputs, drafts = bind_outputs(joins.scope, tree.expressions)
    aggregate = bind_aggregate(select, joins.scope, outputs, drafts)
    distinct = _is_distinct(select)
    if stream is not None:
        if aggregate is not None:
            refuse_aggregate(select, stream)
        outputs = stream_outputs(select, stream, outputs, drafts, distinct=distinct)
    has_lifetimes = distinct or aggregate is not None
    can_share = joins.tree is None and all(item.is_shareable for item in joins.inputs)
    is_written = has_lifetimes or (shared and can_share)
    inputs = tuple(item.as_written() for item in joins.inputs) if is_written else joins.inputs
    if joins.tree is not None:
        refuse_endless(select, joins.tree, inputs)
        if has_lifetimes:
            what = "DISTINCT" if distinct else "an aggregate"
            refuse_late_answers(select, joins.tree, inputs, what)
        if stream is not None:
            refuse_late_answers(select, joins.tree, inputs, f"stream {stream}")
    return Query(
        inputs=inputs,
        graph=joins.graph,
        select=outputs,
        residual=joins.residual,
        tree=joins.tree,
        distinct=distinct,
        aggregate=aggregate,
        sink=sink.name if sink else None,
        text=select.source.slice(select.span),
    )


def _is_distinct(select: Select) -> bool:
    distinct = select.tree.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise select.source.refuse(
            "DISTINCT ON is not supported", distinct, "Write SELECT DISTINCT, or GROUP BY."
        )
    return distinct is not None


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
