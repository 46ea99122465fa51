"""Warns of expressions that may exhaust whoever runs them: who runs a query alone is warned, not refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from watersmeet.errors import SqlError
from watersmeet.sql.binding.limits import function_sizes as known
from watersmeet.sql.binding.limits.measure import alternatives, is_number
from watersmeet.sql.binding.limits.patterns import difficulty_of
from watersmeet.sql.binding.limits.spark_text import read_text
from watersmeet.sql.syntax.parse import Select, parse_statement_list
from watersmeet.sql.syntax.refuse import Source, span_of


def describe_endless(expressions: Iterable[str]) -> tuple[str, ...]:
    """A line for each expression of Spark SQL that can grow, or take, without a bound."""
    return tuple(line for text in dict.fromkeys(expressions) for line in _describe(text))


def _describe(text: str) -> Iterator[str]:
    source = Source(f"SELECT {text} AS x FROM s")
    try:
        (select,) = parse_statement_list(source)
    except SqlError:
        return  # what only Spark reads
    if not isinstance(select, Select):
        return
    for node in select.tree.find_all(exp.RegexpLike, exp.Anonymous):
        written = source.quote(node)
        if _grows(node):
            yield f"{written} can make a value of any length, and exhaust the memory: start with a number"
        if any(_takes_for_ever(source, pattern) for pattern in _patterns(node)):
            yield f"{written} may take for ever: its pattern has loops that one text can pass in many ways"


def _grows(node: exp.Expr) -> bool:
    arguments = list(node.iter_expressions())
    return node.name.lower() in known.FOLDING and len(arguments) > 1 and not is_number(arguments[1])


def _patterns(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.RegexpLike):
        yield from alternatives(node.expression)
    elif node.name.lower() not in known.LIKE:
        arguments = list(node.iter_expressions())
        for index in known.PATTERNS.get(node.name.lower(), ()):
            yield from alternatives(arguments[index]) if index < len(arguments) else ()


def _takes_for_ever(source: Source, pattern: exp.Expr) -> bool:
    """Whether a pattern that is understood has no bound; one that is not understood is left to its author."""
    text = (
        read_text(source.slice(span_of(pattern)))
        if isinstance(pattern, exp.Literal | exp.RawString)
        else None
    )
    return text is not None and difficulty_of(text) is None and not _is_unusual(text)


def _is_unusual(pattern: str) -> bool:
    return any(mark in pattern for mark in ("(?", "&&", "[[", "\\p", "\\P", "\\Q", "*+", "++", "?+", "}+"))
