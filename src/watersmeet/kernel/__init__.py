"""The join kernel: incremental multi-way window joins on Arrow chunks, with no engine around it."""

from watersmeet.kernel.bucket import Bucket, BucketPlan, JoinBucket, RankBucket, plan_bucket
from watersmeet.kernel.chunks import Changes, ChangeTracker, PersistedChunk
from watersmeet.kernel.distinct import DistinctValues
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
from watersmeet.kernel.ranker import Places
from watersmeet.kernel.routing import Grid, route
from watersmeet.kernel.watermark import Marks, Patience, Watermark

__all__ = [
    "ANSWER_END",
    "ANSWER_TS",
    "KEEP",
    "PLACE",
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
    "InputLayout",
    "JoinBucket",
    "JoinLayout",
    "Marks",
    "MultiwayJoin",
    "Patience",
    "PersistedChunk",
    "Places",
    "RankBucket",
    "Shed",
    "Snapshot",
    "StateLimit",
    "Watermark",
    "key_column",
    "lay_out",
    "plan_bucket",
    "route",
    "with_payload",
]
