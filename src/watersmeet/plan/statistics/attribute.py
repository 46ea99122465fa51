"""What is known of one joining column: how many values it takes, and how often.

Three layers, each optional, from the finest to the coarsest: heavy hitters (single values with their
rates), an equi-depth histogram of the tuples whose value is not a heavy hitter, and the number of distinct
values, over which whatever the other two leave is spread evenly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from watersmeet.errors import ConfigurationError

DEFAULT_DISTINCT = 10_000.0
DEFAULT_VALUE_BYTES = 8.0
LISTED_RATE_SLACK = 1.01  # sampled rates of values may add up to a little more than the stream's own rate

Value = str | int | float | bool
HeavyHitter = tuple[Value, float]  # a value and its rate in tuples/s


def require(holds: bool, field: str, wanted: str, got: object) -> None:
    """Refuse a statistic; the message starts with the field, so that a reader can put a path before it."""
    if not holds:
        raise ConfigurationError(f"{field}: must be {wanted}, got {got}")


@dataclass(frozen=True)
class Bin:
    """A bin of a histogram: the tuples with low <= value < high that are no heavy hitters."""

    low: float
    high: float
    rate_per_s: float
    distinct: float

    def __post_init__(self) -> None:
        require(math.isfinite(self.low), "low", "a finite number", self.low)
        require(
            math.isfinite(self.high) and self.high > self.low, "high", f"above low ({self.low:g})", self.high
        )
        require(0 <= self.rate_per_s < math.inf, "rate_per_s", "zero or more", self.rate_per_s)
        require(0 < self.distinct < math.inf, "distinct", "positive", self.distinct)


@dataclass(frozen=True)
class AttributeStatistics:
    """A column's distinct values, its heavy hitters and an equi-depth histogram of the rest.

    `distinct` counts every value, heavy hitters included. Listing every value as a heavy hitter is the
    exact case, the papers' "full value rates".
    """

    distinct: float = DEFAULT_DISTINCT
    heavy_hitters: tuple[HeavyHitter, ...] = ()
    histogram: tuple[Bin, ...] = ()
    value_bytes: float = DEFAULT_VALUE_BYTES

    def __post_init__(self) -> None:
        require(1 <= self.distinct < math.inf, "distinct", "at least 1", self.distinct)
        require(0 < self.value_bytes < math.inf, "value_bytes", "positive", self.value_bytes)
        seen: set[tuple[bool, Value]] = set()
        for index, (value, rate) in enumerate(self.heavy_hitters):
            path = f"heavy_hitters[{index}]"
            require(0 <= rate < math.inf, f"{path}.rate_per_s", "zero or more", rate)
            key = (isinstance(value, str), value)
            require(key not in seen, f"{path}.value", "listed once", repr(value))
            seen.add(key)
        for index in range(1, len(self.histogram)):
            low, before = self.histogram[index].low, self.histogram[index - 1].high
            require(
                low >= before, f"histogram[{index}].low", f"at or above the previous high ({before:g})", low
            )

    @property
    def listed_rate_per_s(self) -> float:
        """The rate that heavy hitters and histogram account for."""
        return sum(rate for _, rate in self.heavy_hitters) + sum(each.rate_per_s for each in self.histogram)

    def rest(self, rate_per_s: float) -> tuple[float, float]:
        """Of a stream of this rate: the rate no layer lists, and over how many values it is spread evenly."""
        rest = rate_per_s - self.listed_rate_per_s
        if rest <= 1e-9 * rate_per_s:
            return 0.0, 0.0
        listed = len(self.heavy_hitters) + sum(each.distinct for each in self.histogram)
        return rest, max(self.distinct - listed, 1.0)
