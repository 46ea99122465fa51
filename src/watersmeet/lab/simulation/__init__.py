"""What all simulations share: a virtual clock, message delays, skewed values and synthetic queries."""

from watersmeet.lab.simulation.delay import NO_DELAY, Delay, constant_delay, random_delay
from watersmeet.lab.simulation.join_query import equality, join_query
from watersmeet.lab.simulation.row_order import row_order_key
from watersmeet.lab.simulation.simulator import SECOND_US, Simulator
from watersmeet.lab.simulation.skew import ValueOrder, Zipf, zipf_shares

__all__ = [
    "NO_DELAY",
    "SECOND_US",
    "Delay",
    "Simulator",
    "ValueOrder",
    "Zipf",
    "constant_delay",
    "equality",
    "join_query",
    "random_delay",
    "row_order_key",
    "zipf_shares",
]
