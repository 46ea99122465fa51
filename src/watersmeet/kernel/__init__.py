"""The join kernel: incremental multi-way window joins on Arrow chunks, with no engine around it."""

from watersmeet.kernel.bucket import Bucket
from watersmeet.kernel.join import Changes, MultiwayJoin, PersistedChunk, Snapshot
from watersmeet.kernel.layout import (
    ANSWER_END,
    ANSWER_TS,
    KEEP,
    PLACE,
    TS,
    InputLayout,
    JoinLayout,
    key_column,
    lay_out,
)
from watersmeet.kernel.ranker import Places, Ranker
from watersmeet.kernel.watermark import Watermark

__all__ = [
    "ANSWER_END",
    "ANSWER_TS",
    "KEEP",
    "PLACE",
    "TS",
    "Bucket",
    "Changes",
    "InputLayout",
    "JoinLayout",
    "MultiwayJoin",
    "PersistedChunk",
    "Places",
    "Ranker",
    "Snapshot",
    "Watermark",
    "key_column",
    "lay_out",
]
