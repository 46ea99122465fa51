"""Joins that many queries share: one level of one bucket of a shared dataflow."""

from watersmeet.kernel.multiquery.bucket import SharedBucket
from watersmeet.kernel.multiquery.live_values import LiveValues, decode_reports, encode_reports
from watersmeet.kernel.multiquery.rows import (
    QUERY,
    SharedCounts,
    SharedRows,
    Values,
    route_rows,
    route_values,
)

__all__ = [
    "QUERY",
    "LiveValues",
    "SharedBucket",
    "SharedCounts",
    "SharedRows",
    "Values",
    "decode_reports",
    "encode_reports",
    "route_rows",
    "route_values",
]
