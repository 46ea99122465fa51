"""What a site reports of itself: what crossed its links, what it has read, how old answers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

READ = "read_"  # and the site a link comes from: the newest batch whose marks count


@dataclass(frozen=True, kw_only=True)
class SentProgress:
    """A link on its way out, up to the newest batch that its sender has put there."""

    to: str
    batch: int
    rows: int
    bytes: float  # of the rows, at the sizes of the statistics
    chunk_bytes: int
    framed_bytes: int
    messages: int
    first_us: int | None = None  # the earliest and the latest event time of a row
    last_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class SiteProgress:
    """A site in one micro-batch; delays are from an answer's t to when it was found, by the site's clock."""

    site: str
    sent: tuple[SentProgress, ...] = ()
    read: Mapping[str, int] | None = (
        None  # by site, the sender's newest batch that was read with all before it
    )
    delay_s: float | None = None  # the mean of the newest batch with answers
    longest_delay_s: float | None = None


def read_batches(metrics: Mapping[str, int]) -> dict[str, int]:
    """What the observed metrics of a batch say of the links into a site."""
    return {name.removeprefix(READ): value for name, value in metrics.items() if name.startswith(READ)}
