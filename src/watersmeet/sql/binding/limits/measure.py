"""Measures expressions: how long their values can get, and in how many steps they are computed.

The length is bounded for columns of any length; the steps for columns of `ASSUMED_LENGTH` characters, since
what is quick for those, such as LIKE '%a%b%', need not be so for megabytes. A lambda names a value, and so
can make it grow once more each time: `transform(array(x), y -> y || y)` doubles x, and so on inside another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from watersmeet.errors import SqlError
from watersmeet.sql.binding.limits import function_sizes as known
from watersmeet.sql.binding.limits.patterns import difficulty_of, difficulty_of_like
from watersmeet.sql.binding.limits.size import (
    FIXED,
    Size,
    fixed,
    largest,
    multiplied,
    once,
    total,
)
from watersmeet.sql.binding.limits.spark_text import read_text

MOST_FIXED = 1_000_000  # characters or elements of one value
MOST_TIMES = 100  # as long as a column
ASSUMED_LENGTH = 1_000
MOST_STEPS = 2e9  # of one query for one answer
LONGEST = 10_000  # that a function makes by a number in the text

_SMALL: tuple[type[exp.Expr], ...] = (
    *(exp.Predicate, exp.Not, exp.Connector, exp.Boolean, exp.Null, exp.Extract, exp.StrPosition),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Interval, exp.DataType, exp.Var),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
)
_WIDE = re.compile(r"\d{5}")
_PARTS = (exp.Dot, exp.Bracket, exp.Paren, exp.Collate)  # as long as what they are of, at most
_GROWING = frozenset(("TEXT", "VARCHAR", "CHAR", "NCHAR", "NVARCHAR", "BINARY", "VARBINARY"))
_GROWING |= frozenset(("ARRAY", "MAP", "STRUCT", "VARIANT"))

Refuse = Callable[[exp.Expr, str, str], SqlError]  # a node, what it does, what to write instead
Scope = Mapping[str, Size]

_ELSEWHERE = "Compute it in the stream's source."
_ONE_TEXT = "Write the pattern as one text."


@dataclass
class Measure:
    """Measures what a query computes; `refuse` makes the error for what has no bound, or one too large."""

    refuse: Refuse
    text_of: Callable[[exp.Expr], str]  # as it is written
    steps: float = 0.0
    _lengths: dict[str, float] = field(default_factory=lambda: {FIXED: 1.0})
    _repeats: float = 1.0  # how often the lambda is called that is being measured

    def size(self, root: exp.Expr, scope: Scope | None = None) -> Size:
        """How long the value of an expression can get."""
        sizes: dict[int, Size] = {}
        for node in _from_leaves(root):
            sizes[id(node)] = self._size(node, sizes, scope or {})
            self._check(node, sizes[id(node)])
        return sizes[id(root)]

    def _check(self, node: exp.Expr, size: Size) -> None:
        if size.of(FIXED) > MOST_FIXED:
            problem = f"this can make a value of {size.of(FIXED):,.0f} characters or elements"
            raise self.refuse(node, problem, "Write smaller numbers.")
        if any(part > MOST_TIMES for name, part in size.parts.items() if name != FIXED):
            problem = f"this can make a value more than {MOST_TIMES} times as long as a column"
            raise self.refuse(node, problem, _ELSEWHERE)

    def _size(self, node: exp.Expr, sizes: Mapping[int, Size], scope: Scope) -> Size:
        if isinstance(node, exp.Column | exp.Identifier):
            return _of_name(node, scope)
        if isinstance(node, exp.Literal | exp.RawString):
            return fixed(max(1, len(node.name)))
        if isinstance(node, exp.Alias):
            return sizes[id(node.this)] + fixed(len(node.alias))
        if isinstance(node, exp.RegexpLike | exp.Like | exp.ILike):
            self._match(node, [node.this, node.expression], (1,), sizes, isinstance(node, exp.RegexpLike))
            return fixed(known.NUMBER)
        if isinstance(node, _PARTS):
            return sizes[id(node.this)]
        if isinstance(node, exp.Case):
            branches = [*(sizes[id(each.args["true"])] for each in node.args["ifs"]), fixed(1)]
            default = node.args.get("default")
            return largest([*branches, sizes[id(default)]] if default is not None else branches)
        if isinstance(node, exp.Cast):
            self._read(node, sizes[id(node.this)])
            grows = node.to.this.name in _GROWING
            return sizes[id(node.this)].times(known.AS_TEXT if grows else 0) + fixed(known.NUMBER)
        if isinstance(node, _SMALL):
            return fixed(known.NUMBER)
        arguments = [child for child in node.iter_expressions() if not isinstance(child, exp.Lambda)]
        given = [sizes[id(child)] for child in arguments]
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key.lower()
        lambdas = [child for child in node.iter_expressions() if isinstance(child, exp.Lambda)]
        if lambdas:
            return self._call_lambdas(name, node, arguments, lambdas, given, scope)
        return self._call(name, node, arguments, given, sizes)

    def _call(
        self,
        name: str,
        node: exp.Expr,
        arguments: list[exp.Expr],
        given: list[Size],
        sizes: Mapping[int, Size],
    ) -> Size:
        """What a function makes of its arguments."""
        self._read(node, total(given))
        if name in known.PATTERNS:
            self._match(node, arguments, known.PATTERNS[name], sizes, name not in known.LIKE)
        if name in known.COMPARING:
            self._take(node, self._assume(total(given)) ** 2)
        if name in known.MAKING_NUMBERS:
            return fixed(known.NUMBER)
        if name in known.LENGTH_AT and len(arguments) > known.LENGTH_AT[name]:
            return self._made_by_number(name, node, arguments, given)
        if name == "sequence" and len(arguments) >= 2:
            ends = [self._number(node, name, argument) for argument in arguments[:2]]
            return fixed(abs(ends[1] - ends[0]) + 1)
        if name in known.FORMATS and len(arguments) > known.FORMATS[name]:
            return self._formatted(name, node, arguments, given)
        if name in known.REPLACING and len(arguments) > known.REPLACING[name]:
            between = given[known.REPLACING[name]] + fixed(1)
            rest = [size for index, size in enumerate(given) if index != known.REPLACING[name]]
            return self._multiply(node, total(rest) + fixed(1), between)
        return total(given).times(known.TIMES.get(name, 1)) + fixed(known.LITTLE)

    def _made_by_number(
        self, name: str, node: exp.Expr, arguments: list[exp.Expr], given: list[Size]
    ) -> Size:
        count = abs(self._number(node, name, arguments[known.LENGTH_AT[name]]))
        if name in known.MULTIPLYING:
            return given[0].times(count)
        return total(given) + fixed(count)

    def _number(self, node: exp.Expr, name: str, argument: exp.Expr) -> int:
        """A number as it is written, which is how many a function makes."""
        found = small_number(argument)
        if found is None:
            raise self.refuse(
                node,
                f"{name} can make any number of characters or elements",
                f"Write a number up to {LONGEST}.",
            )
        return found

    def _formatted(self, name: str, node: exp.Expr, arguments: list[exp.Expr], given: list[Size]) -> Size:
        """A text with its places filled in, each at most as wide as the four digits that are taken say."""
        pattern = arguments[known.FORMATS[name]].unnest()
        if not isinstance(pattern, exp.Literal | exp.RawString) or _WIDE.search(pattern.name):
            problem = f"the format of {name} can ask for any number of characters"
            raise self.refuse(node, problem, f"Write it as one text, with numbers below {LONGEST}.")
        places = pattern.name.count("%") + 1
        return total(given).times(places) + fixed(places * LONGEST)

    def _multiply(self, node: exp.Expr, first: Size, second: Size) -> Size:
        product = multiplied(first, second)
        if product is None:
            raise self.refuse(node, "this multiplies the length of one column by that of another", _ELSEWHERE)
        return product

    def _match(
        self,
        node: exp.Expr,
        arguments: list[exp.Expr],
        patterns: tuple[int, ...],
        sizes: Mapping[int, Size],
        is_regular: bool,
    ) -> None:
        """Adds the steps of patterns; refuses those that are not in the text, or may take for ever."""
        for index in patterns:
            if index < len(arguments):
                for pattern in alternatives(arguments[index]):
                    self._match_one(node, pattern, sizes[id(arguments[0])], is_regular)

    def _match_one(self, node: exp.Expr, pattern: exp.Expr, subject: Size, is_regular: bool) -> None:
        text = read_text(self.text_of(pattern)) if isinstance(pattern, exp.Literal | exp.RawString) else None
        if text is None:
            raise self.refuse(pattern, "a pattern that is computed can take for ever", _ONE_TEXT)
        difficulty = difficulty_of(text) if is_regular else difficulty_of_like(text)
        if difficulty is None:
            raise self.refuse(
                pattern,
                "this pattern can take for ever, or it cannot be told whether it does",
                "Write no loop inside a loop, no alternatives in a loop that begin alike, and neither "
                "references back nor looking ahead.",
            )
        self._take(pattern, difficulty.steps(self._assume(subject)))

    def _take(self, node: exp.Expr, steps: float) -> None:
        self.steps += self._repeats * steps
        if self.steps > MOST_STEPS:
            raise self.refuse(
                node,
                "this can take very long for a single answer",
                "Write fewer loops that can take the same characters, such as .* and %, or fewer elements.",
            )

    def _read(self, node: exp.Expr, size: Size) -> None:
        """Adds the steps of reading a value of this size again for each element, inside a lambda."""
        if self._repeats > 1:
            self._take(node, self._assume(size))

    def _assume(self, size: Size) -> float:
        return size.assumed(self._lengths, ASSUMED_LENGTH)

    def _call_lambdas(
        self,
        name: str,
        node: exp.Expr,
        arguments: list[exp.Expr],
        lambdas: Sequence[exp.Expr],
        given: list[Size],
        scope: Scope,
    ) -> Size:
        """What a function makes that calls a lambda for each element of its argument."""
        if name in known.FOLDING:
            if len(arguments) < 2 or not is_number(arguments[1]):
                raise self.refuse(
                    node,
                    f"{name} can make a value of any length, as what it starts with can grow at each element",
                    "Start with a number, or write CAST(... AS BIGINT).",
                )
            given = given[:1]
        elements = total(given)
        made = [self._each(node, each, elements, scope, folds=name in known.FOLDING) for each in lambdas]
        if name in known.FOLDING or name in known.MAKING_NUMBERS:
            return fixed(known.NUMBER)
        return elements if name in known.CHOOSING else total([elements, *made])

    def _each(self, node: exp.Expr, each: exp.Expr, elements: Size, scope: Scope, *, folds: bool) -> Size:
        """All values that a lambda makes of these elements, together."""
        parameters = [parameter.name.lower() for parameter in each.expressions]
        own = [f"{parameter} {len(self._lengths)}" for parameter in parameters]
        named = {parameter: once(unique) for parameter, unique in zip(parameters, own, strict=True)}
        if folds and parameters:
            named[parameters[0]] = fixed(known.NUMBER)
        count, before, lengths = max(1.0, self._assume(elements)), self._repeats, self._lengths
        self._take(node, count)
        self._repeats, self._lengths = before * count, lengths | dict.fromkeys(own, count)
        made = self.size(each.this, {**scope, **named})
        self._repeats, self._lengths = before, lengths
        found = fixed(0)
        for name, part in made.parts.items():
            one = Size({name: part})
            if name in own:
                found += elements.times(part)
            elif part:
                found += self._multiply(each, elements, one)
        return found


def small_number(node: exp.Expr) -> int | None:
    """A whole number as written, if it is one and not too large."""
    bare = node.unnest()
    sign = -1 if isinstance(bare, exp.Neg) else 1
    literal = bare.this if isinstance(bare, exp.Neg) else bare
    if not isinstance(literal, exp.Literal) or literal.is_string or not literal.name.isdigit():
        return None
    return sign * int(literal.name[:10]) if int(literal.name[:10]) <= LONGEST else None


def _from_leaves(root: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of a tree but lambdas, each after what is below it; no recursion, since AND goes deep."""
    stack, found = [root], []
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, exp.Column | exp.DataType):
            stack += [child for child in node.iter_expressions() if not isinstance(child, exp.Lambda)]
    yield from reversed(found)


def _of_name(node: exp.Column | exp.Identifier, scope: Scope) -> Size:
    """Of a column, or of the parameter of a lambda; a field of it is no longer."""
    names = (
        [part.name.lower() for part in node.parts] if isinstance(node, exp.Column) else [node.name.lower()]
    )
    return scope[names[0]] if names[0] in scope else once(".".join(names))


def alternatives(pattern: exp.Expr) -> Iterator[exp.Expr]:
    """The patterns of LIKE ANY (...), or the one there is."""
    bare = pattern.unnest()
    if isinstance(bare, exp.Any | exp.All):
        yield from alternatives(bare.this)
    elif isinstance(bare, exp.Tuple):
        yield from bare.expressions
    else:
        yield bare


def is_number(node: exp.Expr) -> bool:
    """Whether a value is a number, or a struct of numbers, by how it is written."""
    bare = node.unnest()
    if isinstance(bare, exp.Neg):
        return is_number(bare.this)
    if isinstance(bare, exp.Cast):
        return bare.to.this.name not in _GROWING
    if isinstance(bare, exp.Anonymous) and bare.name.lower() in ("struct", "named_struct"):
        fields = bare.expressions[1::2] if bare.name.lower() == "named_struct" else bare.expressions
        return all(is_number(each.this if isinstance(each, exp.Alias) else each) for each in fields)
    return isinstance(bare, exp.Boolean) or (isinstance(bare, exp.Literal) and not bare.is_string)
