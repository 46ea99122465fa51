"""The join kernel: incremental multi-way window joins on Arrow chunks, with no engine around it."""

from watersmeet.kernel.bucket import Bucket, BucketPlan, JoinBucket, RankBucket, plan_bucket
from watersmeet.kernel.chunks import Changes, ChangeTracker, PersistedChunk
from watersmeet.kernel.distinct import DistinctValues
from watersmeet.kernel.heavy_hitters import Summary, merge, summarise
from watersmeet.kernel.hot_routing import Part, route_hot
from watersmeet.kernel.hot_values import NO_HOT_VALUES, HotTable, HotValue, cool, heat, may_spread
from watersmeet.kernel.join import MultiwayJoin, Snapshot
from watersmeet.kernel.late_payload import Fetch, with_payload
from watersmeet.kernel.layout import (
    ANSWER_END,
    ANSWER_TS,
    KEEP,
    PLACE,
    REF,
    TICK,
    TS,
    InputLayout,
    JoinLayout,
    key_column,
    lay_out,
)
from watersmeet.kernel.limit import Shed, StateLimit
from watersmeet.kernel.live_values import LiveValues, decode_heard, encode_heard
from watersmeet.kernel.ranker import Places
from watersmeet.kernel.ring import RingBucket
from watersmeet.kernel.ring_rows import QUERY, RingCounts, RingRows, route_rows
from watersmeet.kernel.routing import Grid, hash_keys, route
from watersmeet.kernel.stream_bounds import StreamBounds
from watersmeet.kernel.watermark import Marks, Patience, Watermark

__all__ = [
    "ANSWER_END",
    "ANSWER_TS",
    "KEEP",
    "NO_HOT_VALUES",
    "PLACE",
    "QUERY",
    "REF",
    "TICK",
    "TS",
    "Bucket",
    "BucketPlan",
    "ChangeTracker",
    "Changes",
    "DistinctValues",
    "Fetch",
    "Grid",
    "HotTable",
    "HotValue",
    "InputLayout",
    "JoinBucket",
    "JoinLayout",
    "LiveValues",
    "Marks",
    "MultiwayJoin",
    "Part",
    "Patience",
    "PersistedChunk",
    "Places",
    "RankBucket",
    "RingBucket",
    "RingCounts",
    "RingRows",
    "Shed",
    "Snapshot",
    "StateLimit",
    "StreamBounds",
    "Summary",
    "Watermark",
    "cool",
    "decode_heard",
    "encode_heard",
    "hash_keys",
    "heat",
    "key_column",
    "lay_out",
    "may_spread",
    "merge",
    "plan_bucket",
    "route",
    "route_hot",
    "route_rows",
    "summarise",
    "with_payload",
]
