"""Outer, semi and anti joins: the joins of FROM and the subqueries of WHERE into one tree."""

from watersmeet.sql.binding.joins.bind_joins import BoundJoins, bind_joins
from watersmeet.sql.binding.joins.refuse import refuse_endless, refuse_late_answers

__all__ = ["BoundJoins", "bind_joins", "refuse_endless", "refuse_late_answers"]
