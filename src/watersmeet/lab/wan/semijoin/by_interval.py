"""A feed cut into intervals, as a semijoin plan's sites see it: the tuples that come, and those that end."""

from __future__ import annotations

from watersmeet.lab.wan.feed import Feed
from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, item_of


def items_by_interval(feed: Feed, interval_us: int) -> dict[int, list[Item]]:
    """The members that come in each interval, as items."""
    found: dict[int, list[Item]] = {}
    for member in feed.members:
        found.setdefault(member.ts // interval_us, []).append(item_of(member))
    return found


def ends_by_interval(feed: Feed, interval_us: int) -> dict[int, list[Ended]]:
    """Under a ROWS window: which members an interval's arrivals end, and when."""
    found: dict[int, list[Ended]] = {}
    if feed.window.counts_rows:
        for member in feed.members:
            successor = feed.window.successor(member.position)
            if successor < len(feed.times):
                end = feed.times[successor]
                found.setdefault(end // interval_us, []).append((member.position, end))
    return found
