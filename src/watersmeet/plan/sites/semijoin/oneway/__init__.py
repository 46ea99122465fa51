"""One-way joins between two sites, one protocol for each method (Tran and Lee, 2010, section 3)."""

from watersmeet.plan.sites.semijoin.oneway.halves import Join, Receiver, Source, Target
from watersmeet.plan.sites.semijoin.oneway.items import Ended, Item, Key

__all__ = ["Ended", "Item", "Join", "Key", "Receiver", "Source", "Target"]
