"""How far streams have come: watermarks, bounds of single streams, row positions for ROWS windows."""

from watersmeet.kernel.progress.link_marks import FIRST, LinkMarks
from watersmeet.kernel.progress.link_pieces import LinkBatch, LinkPieces
from watersmeet.kernel.progress.row_numbers import RowPositions
from watersmeet.kernel.progress.stream_bounds import StreamBounds
from watersmeet.kernel.progress.watermark import LatenessPolicy, Punctuation, Watermark, describe_policies

__all__ = [
    "FIRST",
    "LatenessPolicy",
    "LinkBatch",
    "LinkMarks",
    "LinkPieces",
    "Punctuation",
    "RowPositions",
    "StreamBounds",
    "Watermark",
    "describe_policies",
]
