"""The CQL dialect: Spark SQL with windows in brackets after a table, and declarations.

Two rules keep this small. A window is only noted where it stands (its text is read later, see
`windows.py`), so brackets in expressions stay array subscripts. And ordinary functions are parsed as a
name and its arguments, never as sqlglot's own node for them: expressions go to Spark as they were
written (see `expressions.py`), so the tree only has to say which columns they read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar, TypeVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.parsers.spark import SparkParser

from watersmeet.errors import Span
from watersmeet.sql.syntax.refuse import SPAN

WINDOWS = "windows"  # the key under which a table, or its alias, keeps the spans of its windows

# The functions whose arguments are not a plain list: CAST(x AS t), EXTRACT(f FROM x) and the like.
_SPECIAL_SYNTAX = frozenset(
    {"CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST"}
)

Node = TypeVar("Node", bound=exp.Expr | None)


class CqlSyntaxError(ParseError):
    """A syntax error and where it stands."""

    def __init__(self, problem: str, span: Span, advice: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.span = span
        self.advice = advice


class Setting(exp.Expression):
    """One `key = 'value'` of a WITH clause; `this` is the key, `value` its text."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True}


class CreateStream(exp.Expression):
    """CREATE STREAM name (columns) WITH (settings)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "settings": False}


class CreateView(exp.Expression):
    """CREATE VIEW this AS expression."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class CreateAnswers(exp.Expression):
    """CREATE STREAM this AS expression."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class CreateTable(exp.Expression):
    """CREATE TABLE name (columns) WITH (settings)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "settings": False}


class CreateSink(exp.Expression):
    """CREATE SINK name WITH (settings)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "settings": False}


class CreateSite(exp.Expression):
    """CREATE SITE name WITH (settings)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "settings": False}


class CreateLink(exp.Expression):
    """CREATE LINK this TO expression WITH (settings)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "settings": False}


Declaration = CreateStream | CreateAnswers | CreateView | CreateTable | CreateSink | CreateSite | CreateLink


class InsertInto(exp.Expression):
    """INSERT INTO sink SELECT ..."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class CqlParser(SparkParser):
    """Spark's grammar, with our statements and windows; every condition and term knows its span."""

    FUNCTIONS: ClassVar = {}
    ARRAY_CONSTRUCTORS: ClassVar = {}  # array(x)[0] is a call and a subscript, never the literal ARRAY[0]
    FUNCTION_PARSERS: ClassVar = {
        name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in _SPECIAL_SYNTAX
    }

    def raise_error(self, message: str, token: Token = SENTINEL_NONE) -> None:
        at = token or self._curr
        if at:
            found, span = f"'{_shorten(at.text)}'", Span(at.start, at.end + 1)
        else:
            end = self._prev.end + 1 if self._prev else 0
            found, span = "the end of the statement", Span(end, end + 1)
        raise CqlSyntaxError(_in_plain_words(message, found), span)

    def _refuse(self, problem: str, token: Token, advice: str) -> CqlSyntaxError:
        at = token or self._prev
        return CqlSyntaxError(problem, Span(at.start, at.end + 1), advice)

    def _spanned(self, parse: Callable[[], Node]) -> Node:
        start = self._curr
        node = parse()
        if node is not None and start and self._prev and self._prev.end >= start.start:
            node.meta[SPAN] = (start.start, self._prev.end + 1)
        return node

    def _parse_disjunction(self) -> exp.Expr | None:
        return self._spanned(super()._parse_disjunction)

    def _parse_conjunction(self) -> exp.Expr | None:
        return self._spanned(super()._parse_conjunction)

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        return self._spanned(lambda: super(CqlParser, self)._parse_equality(parse_is))

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if this is not None:
            return super()._parse_comparison(this)
        return self._spanned(super()._parse_comparison)

    def _parse_unary(self) -> exp.Expr | None:
        return self._spanned(super()._parse_unary)

    def _parse_expression(self) -> exp.Expr | None:
        return self._spanned(super()._parse_expression)

    def _parse_join(
        self,
        skip_join_token: bool = False,
        parse_bracket: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
    ) -> exp.Join | None:
        parse = super()._parse_join
        return self._spanned(lambda: parse(skip_join_token, parse_bracket, alias_tokens))

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if isinstance(this, exp.Table) and self._at_bracket():
            self._note_windows(this)
            return this
        return super()._parse_bracket(this)

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        alias = super()._parse_table_alias(alias_tokens)
        if alias is not None:
            self._note_windows(alias)
        return alias

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        parse_bracket: bool = False,
        is_db_reference: bool = False,
        parse_partition: bool = False,
        consume_pipe: bool = False,
    ) -> exp.Expr | None:
        parse = super()._parse_table
        table = self._spanned(
            lambda: parse(
                schema, joins, alias_tokens, parse_bracket, is_db_reference, parse_partition, consume_pipe
            )
        )
        if table is not None and self._at_bracket():
            self._note_windows(table)
            if not table.args.get("alias") and (alias := self._parse_table_alias(alias_tokens)):
                table.set("alias", alias)
        return table

    def _parse_select(
        self,
        nested: bool = False,
        table: bool = False,
        parse_subquery_alias: bool = True,
        parse_set_operation: bool = True,
        consume_pipe: bool = True,
    ) -> exp.Expr | None:
        parse = super()._parse_select
        return self._spanned(
            lambda: parse(nested, table, parse_subquery_alias, parse_set_operation, consume_pipe)
        )

    def _at_bracket(self) -> bool:
        return bool(self._curr) and self._curr.token_type == TokenType.L_BRACKET

    def _note_windows(self, node: exp.Expr) -> None:
        while self._at_bracket():
            start = self._curr
            while self._curr and self._curr.token_type != TokenType.R_BRACKET:
                self._advance()
            if not self._match(TokenType.R_BRACKET):
                raise self._refuse("this window is never closed", start, "Close it with ].")
            node.meta.setdefault(WINDOWS, []).append((start.start, self._prev.end + 1))

    def _parse_create(self) -> Declaration:  # type: ignore[override]
        kind = self._curr
        if self._match_text_seq("STREAM"):
            name = self._parse_name("stream")
            if self._match(TokenType.ALIAS):
                query = self._parse_ddl_select()
                if query is None:
                    advice = f"Write CREATE STREAM {name.name} AS SELECT ... FROM ..."
                    raise self._refuse("a stream of answers is a SELECT", self._curr, advice)
                return self.expression(CreateAnswers(this=name, expression=query))
            columns = self._parse_wrapped_csv(self._parse_stream_column) if self._at_paren() else []
            return self.expression(
                CreateStream(this=name, expressions=columns, settings=self._parse_settings())
            )
        if self._match_text_seq("TABLE"):
            name = self._parse_name("table")
            columns = self._parse_wrapped_csv(self._parse_stream_column) if self._at_paren() else []
            return self.expression(
                CreateTable(this=name, expressions=columns, settings=self._parse_settings())
            )
        if self._match_text_seq("VIEW"):
            return self._parse_view()
        if self._match_text_seq("SINK"):
            name = self._parse_name("sink")
            return self.expression(CreateSink(this=name, settings=self._parse_settings()))
        if self._match_text_seq("SITE"):
            name = self._parse_name("site")
            return self.expression(CreateSite(this=name, settings=self._parse_settings()))
        if self._match_text_seq("LINK"):
            return self._parse_link()
        raise self._refuse(
            f"CREATE {kind.text.upper()} is not part of the language" if kind else "CREATE what?",
            kind,
            "Write CREATE STREAM name (columns) WITH (...), or CREATE VIEW, TABLE, SINK, SITE or LINK.",
        )

    def _parse_view(self) -> CreateView:
        name = self._parse_name("view")
        if self._at_paren():
            raise self._refuse(
                "a view takes no list of columns", self._curr, "Name its columns in the SELECT, with AS."
            )
        query = self._parse_ddl_select() if self._match(TokenType.ALIAS) else None
        if query is None:
            advice = f"Write CREATE VIEW {name.name} AS SELECT ... FROM stream."
            raise self._refuse("a view is a SELECT", self._curr, advice)
        return self.expression(CreateView(this=name, expression=query))

    def _parse_link(self) -> CreateLink:
        source = self._parse_name("link")
        if not self._match_text_seq("TO"):
            advice = f"Write CREATE LINK {source.name} TO the other site WITH (...)."
            raise self._refuse("a link joins two sites", self._curr, advice)
        target = self._parse_name("link")
        return self.expression(CreateLink(this=source, expression=target, settings=self._parse_settings()))

    def _at_paren(self) -> bool:
        return bool(self._curr) and self._curr.token_type == TokenType.L_PAREN

    def _parse_name(self, kind: str) -> exp.Expr:
        name = self._parse_id_var(any_token=True)
        if name is None or not name.name:
            raise self._refuse(f"a {kind} needs a name", self._curr, f"Write CREATE {kind.upper()} name ...")
        return name

    def _parse_stream_column(self) -> exp.ColumnDef:
        name = self._parse_id_var(any_token=True)
        if name is None or not name.name:
            self.raise_error("Expecting a column name")
        type_token = self._curr
        kind = self._try_parse(lambda: self._spanned(lambda: self._parse_types(schema=True)))
        if not isinstance(kind, exp.DataType):
            raise self._refuse(
                f"'{_shorten(type_token.text)}' is not a type" if type_token else "a column needs a type",
                type_token,
                "Write a column as a name and a Spark type: dest STRING, size BIGINT, tags ARRAY<STRING>.",
            )
        self._match_text_seq("NOT", "NULL")
        if self._match(TokenType.COMMENT):
            self._parse_string()
        return self.expression(exp.ColumnDef(this=name, kind=kind))

    def _parse_settings(self) -> list[Setting]:
        if not self._match(TokenType.WITH):
            return []
        settings: list[Setting] = self._parse_wrapped_csv(self._parse_setting)
        return settings

    def _parse_setting(self) -> Setting:
        start = self._curr
        if not self._match(TokenType.STRING):
            self._advance()
            while self._match(TokenType.DOT):
                self._advance()
        end = self._prev
        key = start.text if end is start else self.sql[start.start : end.end + 1] if start else ""
        if not self._match(TokenType.EQ):
            self.raise_error("Expecting =")
        value = self._spanned(self._parse_unary)
        if not isinstance(value, exp.Literal | exp.Boolean | exp.Neg | exp.Column):
            self.raise_error("Expecting a value in quotes")
            raise AssertionError("raise_error raises")
        written = self.sql[slice(*value.meta[SPAN])]
        text = value.name if isinstance(value, exp.Literal) and value.is_string else written
        setting = self.expression(Setting(this=key, value=text))
        setting.meta[SPAN] = (start.start, value.meta[SPAN][1])
        return setting

    def _parse_insert(self) -> InsertInto:  # type: ignore[override]
        if not self._match(TokenType.INTO):
            raise self._refuse(
                "INSERT must be INSERT INTO",
                self._curr,
                "Answers are only ever appended: INSERT INTO sink SELECT ...",
            )
        self._match(TokenType.TABLE)
        name = self._parse_name("sink")
        if self._at_paren() and self._next.token_type not in (
            TokenType.SELECT,
            TokenType.WITH,
            TokenType.L_PAREN,
        ):
            raise self._refuse(
                "INSERT INTO takes no list of columns", self._curr, "Name the columns in the SELECT, with AS."
            )
        query = self._parse_ddl_select()
        if query is None:
            raise self._refuse(
                "INSERT INTO needs a SELECT", self._curr, f"Write INSERT INTO {name.name} SELECT ..."
            )
        return self.expression(InsertInto(this=name, expression=query))


class Cql(Spark):
    """Spark SQL with our parser; generation stays Spark's."""

    Parser = CqlParser


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _in_plain_words(message: str, found: str) -> str:
    if message.lower().startswith("required"):
        return f"something is missing before {found}"
    if message.startswith("Expect"):
        return f"expected {message.split(' ', 1)[1]} before {found}"
    if message.startswith("Invalid expression"):
        return f"{found} was not expected here"
    return f"{message[:1].lower()}{message[1:]}, at {found}"
