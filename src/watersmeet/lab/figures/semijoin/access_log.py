"""Access logs of the 1998 World Cup site: a reader of their binary format, and synthetic logs like them.

A record has 20 bytes, big-endian: timestamp (seconds since the epoch), client, object and size as unsigned 32
bits each, then method, status, type and server as single bytes (Arlitt and Jin 1998, as published with the
logs of the Internet Traffic Archive). Files may be gzipped.

The semijoin paper joins four days on the client with the timeline sped up ten times (Tran and Lee 2010,
section 5.3.2; it says scaled down, and its rates are ten times those of the site). The logs cannot be had
here, so `synthetic_log` makes records with the published rates and numbers of clients.
"""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from pathlib import Path

from watersmeet.errors import DataError
from watersmeet.lab.simulation import SECOND_US
from watersmeet.lab.wan.feed import Feed, feed_of
from watersmeet.query import Window

RECORD = struct.Struct(">IIIIBBBB")
SPEED_UP = 10
TUPLE_BYTES = 142.0
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to the site."""

    timestamp: int  # seconds since the epoch
    client: int
    object: int
    size: int
    method: int = 0
    status: int = 0
    type: int = 0
    server: int = 0


def read_access_log(path: str | Path) -> list[Request]:
    """The requests of a log file, gzipped or not."""
    data = Path(path).read_bytes()
    if data.startswith(GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise DataError(f"{path} is not a whole gzip file: {error}") from None
    if len(data) % RECORD.size:
        raise DataError(
            f"{path} is not an access log of 1998's format: {len(data)} bytes are not a whole number of"
            f" {RECORD.size}-byte records"
        )
    names = [field.name for field in fields(Request)]
    return [Request(**dict(zip(names, record, strict=True))) for record in RECORD.iter_unpack(data)]


def write_access_log(path: str | Path, requests: Iterable[Request]) -> None:
    """Writes requests in the logs' format; gzipped if the name ends with .gz."""
    data = b"".join(RECORD.pack(*astuple(request)) for request in requests)
    Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)


@dataclass(frozen=True)
class Day:
    """A day's log as the paper sums it up: requests a second once sped up, and the share of a client."""

    name: str
    rate_per_s: float
    factor: float  # the selectivity factor of the client: 1 / clients


# Figure 10's caption.
PAPER_DAYS = (
    Day("day 30", 2370, 0.0024),
    Day("day 31", 3670, 0.0017),
    Day("day 32", 3500, 0.0015),
    Day("day 33", 4200, 0.001),
)


def synthetic_log(day: Day, seconds: float, rng: random.Random) -> list[Request]:
    """Requests of as many seconds, once sped up, with clients drawn uniformly."""
    clients = round(1 / day.factor)
    per_s = day.rate_per_s / SPEED_UP
    return [
        Request(
            timestamp=int(n / per_s),
            client=rng.randrange(clients),
            object=rng.randrange(1 << 16),
            size=rng.randrange(1 << 14),
            status=200,
        )
        for n in range(round(seconds * day.rate_per_s))
    ]


def log_feed(requests: Sequence[Request], window: Window, speed_up: float = SPEED_UP) -> Feed:
    """A log as a stream joined by its client: time starts at 0; requests of a second are spread over it."""
    ordered = sorted(requests, key=lambda request: request.timestamp)
    start = ordered[0].timestamp if ordered else 0
    arrivals = []
    for second, group in groupby(ordered, key=lambda request: request.timestamp):
        together = list(group)
        for n, request in enumerate(together):
            moment = (second - start + n / len(together)) * SECOND_US / speed_up
            arrivals.append((int(moment), (request.client,)))
    return feed_of(window, arrivals)
