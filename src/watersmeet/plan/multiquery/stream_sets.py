"""Sets of streams that have a watermark of their own in a shared dataflow."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.query import Stream

StreamSet = tuple[str, tuple[str, ...]]  # its name, and the streams


def stream_set(streams: Sequence[Stream]) -> StreamSet | None:
    """The set that a query reads, where one of several streams may fall idle.

    Otherwise the watermark is the least bound of the single streams, and nothing else need be followed.
    """
    names = tuple(sorted({stream.name for stream in streams}))
    if len(names) == 1 or all(stream.idle_after_us is None for stream in streams):
        return None
    return f"{{{', '.join(names)}}}", names
