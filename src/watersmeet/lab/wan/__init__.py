"""A simulated WAN: sites joined by links with latency and bandwidth, and the tuples that arrive at them."""

from watersmeet.lab.wan.arrivals import Arrival, Joined, arrivals_of
from watersmeet.lab.wan.draws import Pruning, draw_arrivals
from watersmeet.lab.wan.feed import Feed, feed_of, feeds_of
from watersmeet.lab.wan.network import Link, Traffic, Wan

__all__ = [
    "Arrival",
    "Feed",
    "Joined",
    "Link",
    "Pruning",
    "Traffic",
    "Wan",
    "arrivals_of",
    "draw_arrivals",
    "feed_of",
    "feeds_of",
]
