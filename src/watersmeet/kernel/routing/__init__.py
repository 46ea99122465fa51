"""Which buckets a tuple goes to: by shares, and for the few hot values by a table of their own."""

from watersmeet.kernel.routing.fading_summary import elapsed_us, fade
from watersmeet.kernel.routing.grid import Grid, coordinate, first_buckets, hash_keys, route, split
from watersmeet.kernel.routing.heavy_hitters import Summary, summarise
from watersmeet.kernel.routing.hot_routing import route_hot
from watersmeet.kernel.routing.hot_values import NO_HOT_VALUES, HotTable, HotValue, cool, heat, may_spread
from watersmeet.kernel.routing.results import route_results

__all__ = [
    "NO_HOT_VALUES",
    "Grid",
    "HotTable",
    "HotValue",
    "Summary",
    "cool",
    "coordinate",
    "elapsed_us",
    "fade",
    "first_buckets",
    "hash_keys",
    "heat",
    "may_spread",
    "route",
    "route_hot",
    "route_results",
    "split",
    "summarise",
]
