"""Whose state a query goes on with, where it has taken the place of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Predecessor:
    """The queries whose state a changed one may find, newest first, and what it forgets of each.

    A query is known by its fingerprint. It is the one before the change, or an earlier one: a bucket that has
    got no row since an earlier change has still the state of that time. Of the inputs named with a query no
    tuple of that state counts. Tables of hot values stay where the `first` query of the checkpoint had them.
    """

    first: str
    forgotten: tuple[tuple[str, frozenset[str]], ...]

    def before(self, fingerprint: str, forgotten: frozenset[str]) -> Predecessor:
        """The same once the query of this fingerprint has been changed as well."""
        known = tuple((one, names | forgotten) for one, names in self.forgotten if one != fingerprint)
        return Predecessor(self.first, ((fingerprint, forgotten), *known))

    def forgets(self, fingerprint: str) -> frozenset[str] | None:
        """The inputs whose tuples do not count in a state; None if it is that of no predecessor."""
        return dict(self.forgotten).get(fingerprint)

    def to_json(self) -> dict[str, Any]:
        return {"first": self.first, "forgotten": [[one, sorted(names)] for one, names in self.forgotten]}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Predecessor:
        known = tuple((one, frozenset(names)) for one, names in fields["forgotten"])
        return Predecessor(fields["first"], known)
