"""A changed query takes over the state of the query before it: what may change, and what would be missing.

An answer belongs to the changed query if at least one of its tuples came after the change, and to the old one
otherwise. So the changed query needs the tuples that came before, as far as it would have kept them itself.
What is kept follows from the old query:

    changed                      of the tuples kept
    SELECT, several inputs'      all, if they have the columns that are read now
    conditions
    a filter                     those that pass it: the others are left out of answers. What the old filter
                                 dropped is missing, unless the new one drops it too
    a window                     all, with other ends. What the old window let go, and the new would not, is
                                 missing
    a column that was not kept   none: the tuples of the input are forgotten

What is missing lets answers go missing for a time, a *gap*. It ends when the last missing tuple would have
left its window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet.errors import ConfigurationError
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.predecessor import Predecessor
from watersmeet.plan.routing.routing import Shares
from watersmeet.plan.state_format import (
    COLUMN,
    COLUMN_ORDER,
    Facts,
    StateIdentity,
    describe_change,
    describe_differences,
    facts_of,
    identity_from_json,
)
from watersmeet.query import BEGINNING, Expr, Input, Query, Window
from watersmeet.query.window import window_from_json

ByAlias = Mapping[str, tuple[str, ...]]

_FREE = {("", "SELECT"), ("", "conditions over several inputs")}
LAST_YEAR_US = 253_402_300_799 * 1_000_000  # what comes after the year 9999 never comes
_BOUND = re.compile(r"(?P<column>.+?) (?P<sign><=|>=|<|>) (?P<number>-?\d+(\.\d+)?)")


@dataclass(frozen=True)
class KeptState:
    """What is known of the state that a query has left.

    `columns` can be read of every tuple of an input. `unchecked` are filters of an input that
    tuples may fail which came before a change, so answers are held against them. `lacks` are the largest
    event times of tuples that have been missing since an earlier change, by input.
    """

    identity: StateIdentity
    columns: ByAlias
    unchecked: ByAlias = field(default_factory=dict)
    lacks: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(plan: PhysicalPlan, unchecked: ByAlias | None = None) -> KeptState:
        """What a plan leaves, whose query already holds answers against the filters that are `unchecked`."""
        query = plan.query
        columns = {
            item.alias: tuple(
                dict.fromkeys([*query.payload(item.alias), *query.bare_keys(item.alias).values()])
            )
            for item in query.inputs
        }
        return KeptState(plan.identity, columns, unchecked or {})

    def to_json(self) -> dict[str, Any]:
        return {
            "identity": self.identity.to_json(),
            "columns": {alias: list(names) for alias, names in self.columns.items()},
            "unchecked": {alias: list(texts) for alias, texts in self.unchecked.items()},
            "lacks": dict(self.lacks),
        }

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> KeptState:
        return KeptState(
            identity_from_json(fields["identity"]),
            {alias: tuple(names) for alias, names in fields["columns"].items()},
            {alias: tuple(texts) for alias, texts in fields["unchecked"].items()},
            dict(fields["lacks"]),
        )

    @property
    def facts(self) -> Facts:
        """The identity in words, as its query was written."""
        identity = self.identity.to_json()
        if not self.unchecked:
            return facts_of(identity)
        again = {text for texts in self.unchecked.values() for text in texts}
        answers = identity["query"]["answers"]
        written = {**answers, "conditions": [each for each in answers["conditions"] if each not in again]}
        return facts_of({**identity, "query": {**identity["query"], "answers": written}})

    def input(self, alias: str) -> Mapping[str, Any]:
        return next(item for item in self.identity.state["inputs"] if item["alias"] == alias)


@dataclass(frozen=True)
class Progress:
    """How far the old query had come: its watermark, and the largest event time of each stream."""

    watermark: int = BEGINNING
    max_ts: Mapping[str, int] = field(default_factory=dict)
    has_hot_values: bool = False  # whether tuples of frequent values are spread over buckets

    @staticmethod
    def of(snapshots: Iterable[Mapping[str, Any]]) -> Progress:
        """As the buckets of its join have noted it in the state store."""
        known = list(snapshots)
        max_ts: dict[str, int] = {}
        for snapshot in known:
            for stream, ts in snapshot["watermark"]["max_ts"].items():
                max_ts[stream] = max(ts, max_ts.get(stream, BEGINNING))
        now = max((snapshot["watermark"]["now"] for snapshot in known), default=BEGINNING)
        return Progress(now, max_ts, any(snapshot["hot"].get("table") for snapshot in known))


@dataclass(frozen=True)
class Missing:
    """Tuples of an input that the state lacks: up to a time, those that a window has let go, or all."""

    item: Input  # as it is now
    why: str
    let_go_by: Window | None = None
    up_to: int | None = None

    def gap(self, progress: Progress) -> Gap | None:
        """The answers that may be missing for want of them; None if there are none."""
        last = self.last(progress)
        until = BEGINNING if last <= BEGINNING else self.item.window.end_us(last)
        return Gap(self.item.alias, self.why, until) if until > progress.watermark else None

    def last(self, progress: Progress) -> int:
        """The largest event time of a missing tuple, at the most."""
        if self.up_to is not None:
            return self.up_to
        if self.let_go_by is None:
            streams = self.item.stream.origins
            return max(progress.max_ts.get(stream.name, BEGINNING) for stream in streams)
        if progress.watermark == BEGINNING:
            return BEGINNING
        return self.let_go_by.first_inside(progress.watermark) - 1


@dataclass(frozen=True)
class Gap:
    """Answers with a tuple from before the change that may be missing: those earlier than `until_us`."""

    alias: str
    why: str
    until_us: int

    @property
    def is_endless(self) -> bool:
        return self.until_us > LAST_YEAR_US


@dataclass(frozen=True)
class TakeOver:
    """A changed query on the state of the one before it."""

    plan: PhysicalPlan
    kept: KeptState
    differences: tuple[str, ...]
    on_request: tuple[str, ...]  # what makes kept tuples another set than the old query's, in words
    missing: tuple[Missing, ...]
    has_new_window: bool

    def gaps(self, progress: Progress) -> tuple[Gap, ...]:
        """What is missing of the answers of the changed query."""
        found = (each.gap(progress) for each in self.missing)
        return tuple(gap for gap in found if gap is not None)

    def state(self, progress: Progress) -> KeptState:
        """What is known of the state from now on."""
        lacks = dict(self.kept.lacks)
        for each in self.missing:
            alias = each.item.alias
            lacks[alias] = max(each.last(progress), lacks.get(alias, BEGINNING))
        return replace(self.kept, lacks=lacks)


def check_again(query: Query, unchecked: ByAlias) -> Query:
    """The query, holding its answers against those of its filters that kept tuples may fail."""
    again = [
        expr for item in query.inputs for expr in item.filters if expr.sql in unchecked.get(item.alias, ())
    ]
    return replace(query, residual=(*query.residual, *again)) if again else query


def take_over(kept: KeptState, plan: PhysicalPlan, before: Predecessor | None) -> TakeOver:
    """How a changed query goes on with a state; refuses what no state of this kind can serve.

    `plan` has the partitions and shares of the old query. `before` are those that this one itself has taken
    the place of.
    """
    _refuse_kinds(kept, plan)
    old_facts, facts = kept.facts, facts_of(plan.identity.to_json())
    _refuse_facts(kept, plan, old_facts, facts)
    inputs = [_ChangedInput(kept, plan.query, item) for item in plan.query.inputs]
    unchecked = {each.alias: tuple(each.unchecked) for each in inputs if each.unchecked}
    written = kept.identity.fingerprint
    earlier = before or Predecessor(written, ())
    changed = replace(
        plan,
        query=check_again(plan.query, unchecked),
        predecessor=earlier.before(written, frozenset(each.alias for each in inputs if each.lost)),
    )
    return TakeOver(
        changed,
        replace(KeptState.of(changed, unchecked), lacks=kept.lacks),
        tuple(describe_differences(old_facts, facts)),
        tuple(text for each in inputs for text in each.on_request),
        tuple(missing for each in inputs for missing in each.missing),
        any(each.has_new_window for each in inputs),
    )


@dataclass(frozen=True)
class _ChangedInput:
    """An input of the changed query, and what is kept of it."""

    kept: KeptState
    query: Query
    item: Input

    @property
    def alias(self) -> str:
        return self.item.alias

    @property
    def lost(self) -> str:
        """Why the kept tuples are of no use; nothing if they are."""
        known = set(self.kept.columns.get(self.alias, ()))
        if lacking := [name for name in self.query.payload(self.alias) if name not in known]:
            return f"column {', '.join(lacking)} of {self.alias} was not kept"
        if unread := sorted({ref.column for expr in self._again for ref in expr.columns} - known):
            what = f"kept tuples of {self.alias} cannot be held against its new filter"
            return f"{what}: column {', '.join(unread)} was not kept"
        return ""

    @property
    def unchecked(self) -> list[str]:
        """The filters that kept tuples may fail."""
        return [] if self.lost else [expr.sql for expr in self._again]

    @property
    def on_request(self) -> Iterator[str]:
        if self.has_new_window:
            yield f"the window of {self.alias}"
        if self._has_new_filters:
            yield f"the filters of {self.alias}"
        if self.lost:
            yield self.lost

    @property
    def missing(self) -> Iterator[Missing]:
        item, alias = self.item, self.alias
        if self.lost:
            yield Missing(item, f"{self.lost}, so its tuples from before the change are forgotten")
            return
        if not all(_follows(text, self._filters) for text in self._old["filters"]):
            yield Missing(item, f"the old filter of {alias} has dropped tuples that the new one keeps")
        if self.has_new_window:
            why = f"the old window of {alias} has let go of tuples that the new one keeps"
            yield Missing(item, why, let_go_by=self._old_window)
            if alias in self.kept.lacks:
                why = f"tuples of {alias} have been missing since an earlier change"
                yield Missing(item, why, up_to=self.kept.lacks[alias])

    @property
    def has_new_window(self) -> bool:
        return self._old_window != self.item.window

    @property
    def _has_new_filters(self) -> bool:
        return set(self._old["filters"]) != set(self._filters)

    @property
    def _again(self) -> list[Expr]:
        """The filters that do not follow from those which all kept tuples have passed."""
        fails = self.kept.unchecked.get(self.alias, ())
        passed = [text for text in self._old["filters"] if text not in fails]
        return [expr for expr in self.item.filters if not _follows(expr.sql, passed)]

    @property
    def _filters(self) -> list[str]:
        return [expr.sql for expr in self.item.filters]

    @property
    def _old(self) -> Mapping[str, Any]:
        return self.kept.input(self.alias)

    @property
    def _old_window(self) -> Window:
        return window_from_json(self._old["window"])


def _refuse_kinds(kept: KeptState, plan: PhysicalPlan) -> None:
    """Refuses queries that keep more than tuples, or whose tuples are kept in other places."""
    why = ""
    if "answers" in kept.identity.state or plan.query.combines_answers:
        why = "of a query with SELECT DISTINCT or GROUP BY, answers are kept beside the tuples"
    elif "tree" in kept.identity.state or plan.query.tree is not None:
        why = "outer, semi and anti joins keep what has found a match"
    elif plan.query.joins_delayed or any(
        window_from_json(item["window"]).counts_rows for item in kept.identity.state["inputs"]
    ):
        why = "under windows that count rows, tuples are kept with their numbers"
    elif not isinstance(plan.routing, Shares) or kept.identity.routing != Shares.name:
        why = f"only a query routed by shares can change, this one is routed as {kept.identity.routing}"
    if why:
        raise ConfigurationError(_refusal(kept, plan, why))


def _refuse_facts(kept: KeptState, plan: PhysicalPlan, before: Facts, now: Facts) -> None:
    """Refuses changes of what tuples are, and of how they find each other."""
    aliases = {item.alias for item in plan.query.inputs}
    fixed = []
    for fact in dict.fromkeys([*before, *now]):
        old, new = before.get(fact), now.get(fact)
        owner, about = fact
        if old == new or fact in _FREE or (owner in aliases and about in ("filters", "window", COLUMN_ORDER)):
            continue
        if about.startswith(COLUMN) and owner in aliases and (old is None or new is None):
            continue
        fixed.append(f"{about} of {owner}" if owner else about)
    if fixed:
        raise ConfigurationError(_refusal(kept, plan, f"no state outlasts a change of {', '.join(fixed)}"))


def _refusal(kept: KeptState, plan: PhysicalPlan, why: str) -> str:
    said = describe_change(kept.identity.fingerprint, plan.fingerprint, kept.facts)
    return f"{said}\n  It cannot go on with this state: {why}."


def _follows(text: str, from_: Sequence[str]) -> bool:
    """Whether a condition holds wherever all of some others do, as far as their texts tell.

    >>> _follows("a.v > 5", ["a.v > 7", "a.k = 1"]), _follows("a.v > 7", ["a.v > 5"])
    (True, False)
    """
    if text in from_:
        return True
    wanted = _bound(text)
    return wanted is not None and any(_is_within(bound, wanted) for bound in filter(None, map(_bound, from_)))


def _bound(text: str) -> tuple[str, str, float] | None:
    """A comparison of a bare column with a number, as column, sign and number."""
    found = _BOUND.fullmatch(text)
    if found is None or not re.fullmatch(r"[\w`]+\.[\w`]+", found["column"]):
        return None
    return found["column"], found["sign"], float(found["number"])


def _is_within(one: tuple[str, str, float], other: tuple[str, str, float]) -> bool:
    """Whether what meets one bound meets the other."""
    (column, sign, number), (wanted_column, wanted_sign, wanted) = one, other
    if column != wanted_column or sign[0] != wanted_sign[0]:
        return False
    is_tighter = number > wanted if sign[0] == ">" else number < wanted
    return is_tighter or (number == wanted and (sign == wanted_sign or len(wanted_sign) == 2))
