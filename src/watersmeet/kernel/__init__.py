"""The join kernel: incremental multi-way window joins on Arrow chunks, with no engine around it."""

from watersmeet.kernel.batch_input import BatchInput
from watersmeet.kernel.bucket import Bucket, BucketPlan, JoinBucket, Numbered, NumberingBucket, plan_bucket
from watersmeet.kernel.join.multiway import MultiwayJoin, Snapshot
from watersmeet.kernel.late_payload import LatePayload, with_payload
from watersmeet.kernel.layout import (
    ANSWER_END,
    ANSWER_TS,
    KEEP,
    REF,
    TICK,
    TS,
    InputLayout,
    JoinLayout,
    key_column,
    lay_out,
)
from watersmeet.kernel.multiquery.bucket import SharedBucket
from watersmeet.kernel.multiquery.live_values import LiveValues, decode_reports, encode_reports
from watersmeet.kernel.multiquery.rows import QUERY, SharedCounts, SharedRows, route_rows
from watersmeet.kernel.output.distinct import DistinctValues
from watersmeet.kernel.progress.row_numbers import RowPositions
from watersmeet.kernel.progress.stream_bounds import StreamBounds
from watersmeet.kernel.progress.watermark import LatenessPolicy, Punctuation, Watermark
from watersmeet.kernel.routing.fading_summary import elapsed_us, fade
from watersmeet.kernel.routing.grid import Grid, coordinate, hash_keys, route
from watersmeet.kernel.routing.heavy_hitters import Summary, merge, summarise
from watersmeet.kernel.routing.hot_routing import Part, route_hot
from watersmeet.kernel.routing.hot_values import NO_HOT_VALUES, HotTable, HotValue, cool, heat, may_spread
from watersmeet.kernel.shedding.limit import Shed, StateLimit
from watersmeet.kernel.state.chunks import Changes, ChangeTracker, PersistedChunk
from watersmeet.kernel.tuning import DEFAULT_TUNING, Tuning

__all__ = [
    "ANSWER_END",
    "ANSWER_TS",
    "DEFAULT_TUNING",
    "KEEP",
    "NO_HOT_VALUES",
    "QUERY",
    "REF",
    "TICK",
    "TS",
    "BatchInput",
    "Bucket",
    "BucketPlan",
    "ChangeTracker",
    "Changes",
    "DistinctValues",
    "Grid",
    "HotTable",
    "HotValue",
    "InputLayout",
    "JoinBucket",
    "JoinLayout",
    "LatePayload",
    "LatenessPolicy",
    "LiveValues",
    "MultiwayJoin",
    "Numbered",
    "NumberingBucket",
    "Part",
    "PersistedChunk",
    "Punctuation",
    "RowPositions",
    "SharedBucket",
    "SharedCounts",
    "SharedRows",
    "Shed",
    "Snapshot",
    "StateLimit",
    "StreamBounds",
    "Summary",
    "Tuning",
    "Watermark",
    "cool",
    "coordinate",
    "decode_reports",
    "elapsed_us",
    "encode_reports",
    "fade",
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
