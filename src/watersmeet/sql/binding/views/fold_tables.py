"""Tables in FROM: each is joined with the one stream that its condition names, as a view would.

    FROM orders [RANGE 1 HOUR] AS o JOIN categories AS c ON o.category = c.id, payments ...
    FROM (SELECT o.*, c.* FROM orders AS o JOIN categories AS c ON ...) [RANGE 1 HOUR] AS o, payments ...

The columns of the table are columns of that input then, called `c.id` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from watersmeet.query import (
    UNBOUNDED,
    Branch,
    Column,
    Expr,
    Input,
    Step,
    Stream,
    TableJoin,
    ViewColumn,
    column_expr,
)
from watersmeet.sql.binding.expressions import bind_condition, find_references
from watersmeet.sql.binding.scope import Scope
from watersmeet.sql.binding.views.bind_view import bind_view
from watersmeet.sql.binding.views.find_stream import find_stream, windows_of
from watersmeet.sql.binding.views.table_joins import kind_of_table_join, refuse_table_window
from watersmeet.sql.syntax.dialect import WINDOWS
from watersmeet.sql.syntax.joins import joins_in_parentheses
from watersmeet.sql.syntax.refuse import Source
from watersmeet.sql.syntax.windows import read_window

Catalog = Mapping[str, Stream]
_IN_A_VIEW = "Join it in a view: (SELECT ... FROM stream JOIN table ON ...) [RANGE 10 MINUTES] AS name."


@dataclass(frozen=True)
class _Written:
    """A table of FROM and the join that brings it."""

    alias: str
    table: Stream
    join: exp.Join


def fold_tables(source: Source, tree: exp.Select, catalog: Catalog) -> tuple[exp.Select, Catalog]:
    """The SELECT without the tables in its FROM, and a catalog with the views that take their place."""
    from_clause = tree.args.get("from_")
    if from_clause is None:
        return tree, catalog
    if (first := _table(from_clause.this, catalog)) is not None:
        raise source.refuse(
            f"{first.name} is a table, and FROM begins with a stream",
            from_clause.this,
            f"Write the stream first: FROM stream [RANGE 10 MINUTES] AS s JOIN {first.name} ON ...",
        )
    if not any(_table(join.this, catalog) for join in tree.args.get("joins") or []):
        return tree, catalog
    return _Folding(source, tree.copy(), catalog).folded()


def _table(node: exp.Expr, catalog: Catalog) -> Stream | None:
    found = catalog.get(node.name.lower()) if isinstance(node, exp.Table) else None
    return found if found is not None and found.table is not None else None


def _conjuncts(tree: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conditions that AND puts together, in order."""
    stack = [tree] if tree is not None else []
    while stack:
        node = stack.pop().unnest()
        if isinstance(node, exp.And):
            stack += [node.expression, node.this]
        else:
            yield node


class _Folding:
    """One SELECT, taken apart and put together again."""

    def __init__(self, source: Source, tree: exp.Select, catalog: Catalog) -> None:
        self.source = source
        self.tree = tree
        self.catalog = catalog
        self.nodes: dict[str, exp.Expr] = {}  # of streams, by alias
        self.inputs: list[Input] = []
        self.tables: list[_Written] = []
        self.owner: dict[str, str] = {}  # of each table the stream, by alias
        self.conditions: dict[str, list[exp.Expr]] = {}  # of each table
        self.rest: list[exp.Expr] = []  # conditions of inner joins over further streams

    def folded(self) -> tuple[exp.Select, Catalog]:
        joins: list[exp.Join] = self.tree.args["joins"]
        self._read(self.tree.args["from_"].this)
        for join in joins:
            table = _table(join.this, self.catalog)
            if table is None:
                self._read(join.this)
            else:
                refuse_table_window(self.source, join.this)
                alias = join.this.alias or table.name
                self._refuse_taken(alias, join.this)
                self.tables.append(_Written(alias, table, join))
        for each in self.tables:
            self._place(each, [join for join in joins if _table(join.this, self.catalog) is None])
        self.tree.set("joins", [join for join in joins if _table(join.this, self.catalog) is None])
        where = self.tree.args.get("where")
        for condition in self.rest:
            where = exp.Where(
                this=condition if where is None else exp.And(this=where.this, expression=condition)
            )
        self.tree.set("where", where)
        return self.tree, self._with_views()

    def _read(self, node: exp.Expr) -> None:
        """A stream, a view or a SELECT in FROM; one that is written in another way is left to others."""
        is_plain = joins_in_parentheses(node) is None and not node.args.get("joins")
        if isinstance(node, exp.Table | exp.Subquery) and is_plain:
            stream = find_stream(self.source, node, self.catalog, bind_view)
            alias = node.alias or stream.name
            self._refuse_taken(alias, node)
            self.nodes[alias] = node
            self.inputs.append(Input(alias, stream, UNBOUNDED))

    def _refuse_taken(self, alias: str, node: exp.Expr) -> None:
        if any(
            alias.lower() == other.lower() for other in (*self.nodes, *(one.alias for one in self.tables))
        ):
            raise self.source.refuse(f"two inputs are called {alias}", node, "Give one of them another name.")

    def _scope(self) -> Scope:
        tables = (Input(each.alias, each.table, UNBOUNDED) for each in self.tables)
        return Scope(self.source, (*self.inputs, *tables))

    def _aliases(self, condition: exp.Expr) -> set[str]:
        found = find_references(condition, self._scope())
        return {column.alias for _, reference in found for column in reference.columns}

    def _place(self, each: _Written, streams: list[exp.Join]) -> None:
        """Finds the stream that a table is joined with, and the condition it is joined by."""
        side = kind_of_table_join(self.source, each.join)
        on = each.join.args.get("on")
        where = self.tree.args.get("where")
        written = list(_conjuncts(on)) if on is not None else []
        if on is None:
            written = [
                one
                for one in _conjuncts(where.this if where is not None else None)
                if isinstance(one, exp.EQ) and each.alias in self._aliases(one)
            ]
        owners: dict[str, None] = {}
        for one in written:
            others = self._streams_of(one, each)
            if len(others) == 1 and isinstance(one, exp.EQ):
                owners.update(others)
        if not owners:
            raise self.source.refuse(
                f"nothing says which rows of table {each.table.name} belong to a tuple",
                each.join.this,
                f"Write JOIN {each.table.name} AS {each.alias} ON an equality of a stream and {each.alias}.",
            )
        owner = next(iter(owners))
        own = [one for one in written if not self._streams_of(one, each).keys() - {owner}]
        further = [one for one in written if one not in own] if on is not None else []
        if side == "LEFT" and further:
            raise self.source.refuse(
                f"the LEFT JOIN of table {each.table.name} reads several streams", further[0], _IN_A_VIEW
            )
        self._refuse_beside_outer(each, owner, side, streams)
        self.rest += further
        self.owner[each.alias] = owner
        self.conditions[each.alias] = own

    def _streams_of(self, condition: exp.Expr, each: _Written) -> dict[str, None]:
        """The streams that a condition reads, those of other tables in their place."""
        aliases = [alias for alias in sorted(self._aliases(condition)) if alias != each.alias]
        for alias in (one for one in aliases if one not in self.nodes and one not in self.owner):
            raise self.source.refuse(
                f"table {each.alias} is joined by {alias}, which comes later", condition, "Write it before."
            )
        return dict.fromkeys(self.owner.get(alias, alias) for alias in aliases)

    def _refuse_beside_outer(self, each: _Written, owner: str, side: str, streams: list[exp.Join]) -> None:
        """Refuses what would not be the same before an outer join of streams as after it."""
        sides = {str(join.args.get("side") or "").upper() for join in streams}
        kinds = {str(join.args.get("kind") or "").upper() for join in streams}
        only_left = sides <= {"", "LEFT"} and not kinds & {"SEMI", "ANTI"}
        is_first = owner == next(iter(self.nodes))
        if sides <= {""} and not kinds & {"SEMI", "ANTI"}:
            return
        if not only_left or (side != "LEFT" and not is_first):
            raise self.source.refuse(
                f"table {each.table.name} stands beside an outer, semi or anti join",
                each.join.this,
                _IN_A_VIEW,
            )

    def _with_views(self) -> Catalog:
        """The catalog with a view for each stream that has tables, which FROM now names."""
        known = dict(self.catalog)
        for item in self.inputs:
            tables = [each for each in self.tables if self.owner[each.alias] == item.alias]
            if tables:
                self._refuse_rows(item.alias, tables[0])
                view = self._view(item, tables)
                name = f"{item.alias} with {' and '.join(each.alias for each in tables)}"
                known[name.lower()] = view
                self._replace(item.alias, name)
        return known

    def _refuse_rows(self, alias: str, table: _Written) -> None:
        """A window of rows would count what the join with a table makes of them."""
        for window in windows_of(self.nodes[alias]):
            if read_window(self.source, window).counts_rows:
                raise self.source.refuse(
                    f"the window of {alias} counts rows, and table {table.table.name} may leave some out or "
                    "make several of one",
                    window,
                    f"Say which are counted: (SELECT ... FROM stream JOIN {table.table.name} ON ...) "
                    f"{self.source.slice(window)} AS {alias} counts joined ones.",
                )

    def _view(self, item: Input, tables: list[_Written]) -> Stream:
        beside, joins = [item], []
        for each in tables:
            if item.stream.column(each.alias) is not None:
                raise self.source.refuse(
                    f"{each.alias} is a table here, and a column of {item.alias}",
                    each.join.this,
                    f"Give the table another name: {each.table.name} AS {each.alias}2.",
                )
            beside.append(Input(each.alias, each.table, UNBOUNDED))
            scope = Scope(self.source, tuple(beside))
            parts = [bind_condition(one, scope) for one in self.conditions[each.alias]]
            columns = tuple(dict.fromkeys(column for part in parts for column in part.columns))
            text = " AND ".join(f"({part.sql})" if len(parts) > 1 else part.sql for part in parts)
            side = kind_of_table_join(self.source, each.join)
            joins.append(TableJoin(each.table, each.alias, Expr(text, columns, "boolean"), side == "LEFT"))
        stream = item.stream
        made = [(column.name, item.alias, column) for column in stream.columns]
        made += [(f"{t.alias}.{column.name}", t.alias, column) for t in tables for column in t.table.columns]
        columns_of_view = tuple(
            ViewColumn(name, column_expr(alias, column.name, column.type)) for name, alias, column in made
        )
        step = Step(item.alias, columns_of_view, tables=tuple(joins))
        return replace(
            stream,
            columns=tuple(Column(name, column.type) for name, _, column in made),
            computed_time=None,
            source=None,
            view=tuple(branch.then(step) for branch in stream.view or (Branch(stream, ()),)),
        )

    def _replace(self, alias: str, name: str) -> None:
        """Names the view in place of the stream, under the same alias and window."""
        node = self.nodes[alias]
        identifier = exp.to_identifier(name, quoted=True)
        identifier.meta.update({"span": node.meta_get("span")})
        written = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
        windows = [(span.start, span.end) for span in windows_of(node)]
        view = exp.Table(this=identifier, alias=written)
        view.meta.update({"span": node.meta_get("span")})
        written.meta.pop(WINDOWS, None)
        if windows:
            view.meta[WINDOWS] = windows
        node.replace(view)
