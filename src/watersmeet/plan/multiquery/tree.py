"""Trees of joins for one query, and the search for the one that adds least to a shared dataflow.

Guarantee: a tree joins all inputs of a query; the members of a join have a column of the join's attribute
class and are routed by it; each equality of the query is checked at the first join that has both of its
columns; no tree has more levels than allowed. Neighbouring joins on one class are one join of several
members, as in `dhtjoin`.

The cost of a tree counts what no query had before: the results per second of its new joins and the rows of
its new relations. The cheapest tree considered is taken, and among equals the one with fewer levels. Where
the inputs have few connected sets, all trees are considered; where they have more, those made of the cheapest
parts, up to `EFFORT` joins; and where they have many, one tree that is grown class by class.

Example: a.x = b.x, b.y = c.y, where another query joins b and c already: b and c are joined first, at level
1, and their results with a at level 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product

from watersmeet.plan.multiquery.slots import Slotted
from watersmeet.plan.statistics.rate_model import RateModel

KEPT = 12  # trees remembered for one set of inputs
EFFORT = 6000  # joins made for one query
MANY_SETS = 300  # connected sets of inputs above which the search is greedy


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A join of a set of inputs (a bit mask); `parts` are positions in FROM or trees of a lower level."""

    mask: int
    cls: int | None  # None: a single input, passed on as it is
    parts: tuple[int | Tree, ...]
    relations: tuple[str, ...]  # the parts as relations of this join's level
    equalities: tuple[tuple[Column, Column], ...]
    level: int
    name: str
    cost: float

    @property
    def order(self) -> tuple[float, int, str]:
        return (self.cost, self.level, self.name)


Column = tuple[int, str]  # an input by its position in FROM, and a column of it
Checked = tuple[tuple[tuple[Column, Column], ...], tuple[str, ...]]  # equalities, also as text


class Planting:
    """Makes the trees of one query, with their names and what each adds to the joins that exist already."""

    def __init__(self, slotted: Slotted, rates: RateModel, there: Container[str]) -> None:
        self.slotted = slotted
        self.rates = rates
        self.there = there  # names of joins and relations that exist, and so cost nothing more
        self.everything = (1 << len(slotted.slots)) - 1
        self._columns: dict[tuple[int, int], Column] = {}
        self._checked: dict[tuple[int, tuple[int, ...]], Checked] = {}

    def route(self, cls: int, mask: int) -> Column:
        """The column of a class by which a set is routed; all that it has of the class are equal by then."""
        known = self._columns.get((cls, mask))
        if known is None:
            keys = self.slotted.keys[cls]
            inside = [(n, keys[n].name) for n in keys if mask >> n & 1]
            known = min(inside, key=lambda column: self.slotted.qualified(*column))
            self._columns[cls, mask] = known
        return known

    def single(self, position: int = 0) -> Tree:
        """The join of one input alone, whose tuples it passes on."""
        mask = 1 << position
        relation = _relation(1, self.slotted.slots[position], self.slotted.spread(position).name)
        name = _join_name(self.slotted, mask, (relation,), ())
        cost = self._kept(relation, mask) + self._made(name, mask)
        return Tree(
            mask=mask,
            cls=None,
            parts=(position,),
            relations=(relation,),
            equalities=(),
            level=1,
            name=name,
            cost=cost,
        )

    def join(self, cls: int, parts: Iterable[int | Tree]) -> Tree:
        """The join of these parts under a class that all of them have."""
        given = tuple(parts)
        level = 1 + max((part.level for part in given if isinstance(part, Tree)), default=0)
        named = sorted((self._relation_of(part, cls, level), part_mask(part), part) for part in given)
        relations = tuple(relation for relation, _, _ in named)
        masks = tuple(mask for _, mask, _ in named)
        equalities, spelt = self._check(cls, masks)
        mask = sum(masks)
        name = _join_name(self.slotted, mask, relations, spelt)
        cost = self._made(name, mask)
        for relation, part_set, part in named:
            cost += self._kept(relation, part_set) + (part.cost if isinstance(part, Tree) else 0.0)
        return Tree(
            mask=mask,
            cls=cls,
            parts=tuple(part for *_, part in named),
            relations=relations,
            equalities=equalities,
            level=level,
            name=name,
            cost=cost,
        )

    def _relation_of(self, part: int | Tree, cls: int, level: int) -> str:
        position, column = self.route(cls, part_mask(part))
        if isinstance(part, Tree):
            return _relation(level, part.name, self.slotted.qualified(position, column))
        return _relation(level, self.slotted.slots[part], column)

    def _check(self, cls: int, masks: tuple[int, ...]) -> Checked:
        """What a join of such parts checks, also as text; the same for whichever trees the parts are."""
        known = self._checked.get((cls, masks))
        if known is None:
            equalities = tuple(self._equalities(cls, masks))
            known = self._checked[cls, masks] = (equalities, self._spelt(equalities))
        return known

    def _equalities(self, cls: int, masks: tuple[int, ...]) -> Iterator[tuple[Column, Column]]:
        """What is checked here, the route's class first: the columns that different parts have of a class."""
        others = sorted(
            (c for c in range(len(self.slotted.keys)) if c != cls),
            key=lambda c: self.slotted.qualified(*self.route(c, self.everything)),
        )
        for each in (cls, *others):
            own = self.slotted.class_masks[each]
            columns = [self.route(each, mask) for mask in masks if mask & own]
            columns.sort(key=lambda column: self.slotted.qualified(*column))
            yield from ((columns[0], column) for column in columns[1:])

    def _spelt(self, equalities: Iterable[tuple[Column, Column]]) -> tuple[str, ...]:
        spell = self.slotted.qualified
        return tuple(f"{spell(*left)} = {spell(*right)}" for left, right in equalities)

    def _made(self, name: str, mask: int) -> float:
        return 0.0 if name in self.there else self.rates.rate(mask)

    def _kept(self, relation: str, mask: int) -> float:
        return 0.0 if relation in self.there else self.rates.window(mask)


def part_mask(part: int | Tree) -> int:
    return part.mask if isinstance(part, Tree) else 1 << part


def _relation(level: int, source: str, route: str) -> str:
    return f"{level}: {source} by {route}"


def _join_name(slotted: Slotted, mask: int, relations: tuple[str, ...], equalities: tuple[str, ...]) -> str:
    """Short, with a digest of all that the results depend on."""
    streams = sorted(item.stream.name for n, item in enumerate(slotted.query.inputs) if mask >> n & 1)
    digest = hashlib.blake2b("\n".join((*relations, "", *equalities)).encode(), digest_size=8).hexdigest()
    return f"{' '.join(streams)} ~{digest}"


def cheapest_tree(planting: Planting, levels: int | None) -> Tree | None:
    """The tree that adds least, or None where none has so few levels."""
    if planting.everything == 1:
        return planting.single()
    connected = _connected_sets(planting.slotted.class_masks, planting.everything)
    if connected is None:
        trees = [_grow(planting, key) for key in (_by_cost, _by_level)]
        fitting = [tree for tree in trees if levels is None or tree.level <= levels]
    else:
        fitting = _search(planting, connected, levels, _by_cost)
        if not fitting:
            fitting = _search(planting, connected, levels, _by_level)
    return min(fitting, key=lambda tree: tree.order, default=None)


def fewest_levels(planting: Planting) -> int:
    """How many levels the query needs; where the search is greedy, the levels of the flattest tree found."""
    connected = _connected_sets(planting.slotted.class_masks, planting.everything)
    if connected is None:
        return _grow(planting, _by_level).level
    flattest: dict[int, int] = {1 << n: 0 for n in range(len(planting.slotted.slots))}
    for mask in connected:
        cuts = [_cuts(mask, own, tuple(flattest)) for own in planting.slotted.class_masks]
        flattest[mask] = min(1 + max(flattest[part] for part in cut) for some in cuts for cut in some)
    return flattest[planting.everything]


def _search(planting: Planting, connected: tuple[int, ...], levels: int | None, key: Key) -> list[Tree]:
    """Dynamic programming over the connected sets; several trees of each, as existing joins favour some."""
    trees: dict[int, list[Tree]] = {1 << n: [] for n in range(len(planting.slotted.slots))}
    effort = EFFORT // len(connected)
    for mask in connected:
        ways = [
            (cls, cut)
            for cls, own in enumerate(planting.slotted.class_masks)
            for cut in _cuts(mask, own, tuple(trees))
        ]
        if len(ways) > effort:
            together = max if key is _by_level else sum
            ways.sort(
                key=lambda way: together([0.0, *(key(trees[part][0])[0] for part in way[1] if trees[part])])
            )
        joins = (
            planting.join(cls, chosen)
            for cls, cut in ways
            for chosen in product(*(_options(part, trees, cls, levels) for part in cut))
        )
        trees[mask] = _worth_keeping(islice(joins, effort), key)
    return trees[planting.everything]


def _options(part: int, trees: dict[int, list[Tree]], cls: int, levels: int | None) -> Sequence[int | Tree]:
    """A part as an input, or as trees: not under the same class, whose parts would be parts of this join."""
    if part & (part - 1) == 0:
        return [part.bit_length() - 1]
    return [tree for tree in trees[part] if tree.cls != cls and (levels is None or tree.level < levels)]


def _worth_keeping(found: Iterable[Tree], key: Key) -> list[Tree]:
    """The best trees, and those of few levels even where they cost more."""
    ordered = sorted(found, key=key)
    flat: dict[int, Tree] = {}
    for tree in ordered:
        flat.setdefault(tree.level, tree)
    kept = {tree.name: tree for tree in (*ordered[: KEPT - len(flat)], *flat.values())}
    return sorted(kept.values(), key=key)


@lru_cache(maxsize=1 << 14)
def _cuts(mask: int, own: int, known: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The ways to cut a set into parts that can stand alone, all of which have a class (a mask)."""
    if mask & own == mask:
        return (tuple(_bits(mask)),)  # nothing needs to be joined before
    able = [part for part in known if not part & ~mask and part & own]
    return tuple(cut for cut in _cut(mask, able) if len(cut) > 1)


def _cut(mask: int, able: list[int]) -> Iterator[tuple[int, ...]]:
    """The ways to put a set together from some of its parts."""
    lowest = mask & -mask
    for part in able:
        if part == mask:
            yield (mask,)
        elif part & lowest and not part & ~mask:
            yield from ((part, *rest) for rest in _cut(mask ^ part, able))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield mask & -mask
        mask &= mask - 1


@lru_cache(maxsize=1024)
def _connected_sets(classes: tuple[int, ...], everything: int) -> tuple[int, ...] | None:
    """The sets of two inputs or more that classes connect, small ones first; None where they are many."""
    found = {1 << n for n in range(everything.bit_length())}
    ahead = list(found)
    while ahead:
        mask = ahead.pop()
        reach = 0
        for own in classes:
            if own & mask:
                reach |= own
        for bit in _bits(reach & ~mask):
            if mask | bit not in found:
                found.add(mask | bit)
                ahead.append(mask | bit)
        if len(found) > MANY_SETS:
            return None
    joined = [mask for mask in found if mask & (mask - 1)]
    return tuple(sorted(joined, key=lambda mask: (mask.bit_count(), mask)))


Key = Callable[[Tree], tuple[float, float, str]]


def _by_cost(tree: Tree) -> tuple[float, int, str]:
    return tree.order


def _by_level(tree: Tree) -> tuple[float, float, str]:
    return (tree.level, tree.cost, tree.name)


def _grow(planting: Planting, key: Key) -> Tree:
    """Join all parts that have a class under it, each time the class whose join comes first by a key."""
    parts: list[int | Tree] = list(range(len(planting.slotted.slots)))
    while len(parts) > 1:
        grown: list[Tree] = []
        for cls, own in enumerate(planting.slotted.class_masks):
            having = [part for part in parts if part_mask(part) & own]
            if len(having) > 1:
                grown.append(planting.join(cls, having))
        best = min(grown, key=key)
        parts = [part for part in parts if not part_mask(part) & best.mask] + [best]
    (tree,) = parts
    assert isinstance(tree, Tree)
    return tree
