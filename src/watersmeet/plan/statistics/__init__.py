"""What is known of the streams: rates, sizes, sites and values, in a file, and what follows from them."""

from watersmeet.plan.statistics.file import (
    format_statistics,
    parse_statistics,
    read_statistics,
    write_statistics,
)
from watersmeet.plan.statistics.rate_model import RateModel, rate_model
from watersmeet.plan.statistics.statistics import (
    DEFAULT_SITE,
    AttributeStatistics,
    Bin,
    HeavyHitter,
    Link,
    Network,
    Statistics,
    StreamStatistics,
    Value,
    attribute_name,
)

__all__ = [
    "DEFAULT_SITE",
    "AttributeStatistics",
    "Bin",
    "HeavyHitter",
    "Link",
    "Network",
    "RateModel",
    "Statistics",
    "StreamStatistics",
    "Value",
    "attribute_name",
    "format_statistics",
    "parse_statistics",
    "rate_model",
    "read_statistics",
    "write_statistics",
]
