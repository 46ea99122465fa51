"""From one plan to another while answers come: an instant T of event time at which the new one takes over.

An answer belongs to the old plan iff its t is before T, and to the new one otherwise. Both read all streams
for a while, each with state of its own:

    tuples read so far     | W: the longest window |
    ───────────────────────┼───────────────────────┼──────────────> event time
                        seen_us                    T = seen_us + W + 1
    answers of the old plan <──────────────────────┤├─────────────> answers of the new one
                            tuples the new one needs ─────────────>

- What an answer with t >= T is made of is at most W older than t, so later than `seen_us`: nobody has read it
  yet. The new plan starts with empty state and passes over all tuples up to `seen_us`.
- No answer with t >= T has been given yet, as t is the time of a tuple that was read.
- The old plan is done at a site once all that can still come there has t >= T: every mark says so.

This divides answers. Values of SELECT DISTINCT and groups of aggregates are of several answers, of which some
may be the old plan's and some the new one's, so for them plans stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from watersmeet.errors import QueryError
from watersmeet.query import BEGINNING, NEVER, Query


@dataclass(frozen=True)
class Tenure:
    """The answers that are a plan's own, by their t, and the time up to which it needs no tuples."""

    since_us: int = BEGINNING
    until_us: int = NEVER
    after_us: int = BEGINNING

    @property
    def is_first(self) -> bool:
        """Whether no other plan was before."""
        return self.since_us == BEGINNING

    @property
    def is_replaced(self) -> bool:
        """Whether another plan takes over."""
        return self.until_us != NEVER

    def until(self, since_us: int) -> Tenure:
        """The same, ended by another plan that takes over."""
        return Tenure(self.since_us, since_us, self.after_us)

    def is_over(self, marks: Mapping[str, int]) -> bool:
        """Whether nothing with an earlier t can come any more, given how far each origin has come."""
        return bool(marks) and min(marks.values()) >= self.until_us


def why_plan_stays(query: Query) -> str | None:
    """Why no other plan can take over while a query runs, and what to do about it; None if one can."""
    for item in query.inputs:
        if item.window.duration_us is None:
            return (
                f"{item.pretty()} has no end, so the plan cannot change while the query runs: what it keeps "
                "would be needed for ever. Give the stream a window of time"
            )
    if query.combines_answers:
        what = "an aggregate" if query.aggregate is not None else "a SELECT DISTINCT"
        return (
            f"{what} counts several answers as one, so the plan cannot change while the query runs: some of "
            "them would be the old plan's. Write --replan say, and start anew with another checkpoint"
        )
    return None


def taken_over(query: Query, seen_us: int) -> Tenure:
    """The tenure of a plan that takes over when no site has read a tuple later than `seen_us`."""
    reason = why_plan_stays(query)
    if reason is not None:
        raise QueryError(reason)
    lengths = [length for item in query.inputs if (length := item.window.duration_us) is not None]
    return Tenure(since_us=seen_us + max(lengths) + 1, after_us=seen_us)


EVER = Tenure()
